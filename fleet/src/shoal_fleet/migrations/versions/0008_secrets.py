"""Where do the sealed secrets of devices go?"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_secret",
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("sealed", sa.String(length=2048), nullable=True),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_device_secret_device_id_device")),
        sa.PrimaryKeyConstraint("device_id", "name", name=op.f("pk_device_secret")),
    )
