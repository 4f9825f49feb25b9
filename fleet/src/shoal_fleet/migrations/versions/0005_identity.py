"""Where does what is known of a device's keys and certificates go?"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("device", sa.Column("renews", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("device", sa.Column("held_at", sa.Double(), nullable=True))
    op.add_column("device", sa.Column("held_reason", sa.Text(), nullable=True))
    op.add_column("device", sa.Column("lineage", sa.Text(), nullable=True))
    op.add_column("device", sa.Column("replaces", sa.String(length=63), nullable=True))
    op.add_column("device", sa.Column("decommissioned_at", sa.Double(), nullable=True))
    op.add_column("device_certificate", sa.Column("authority_sha256", sa.String(length=64), nullable=True))
    op.add_column("device_certificate", sa.Column("issued_at", sa.Double(), nullable=True))
    op.add_column("enrolment_token", sa.Column("replaces", sa.String(length=63), nullable=True))
    op.add_column("enrolment_token", sa.Column("authority_sha256", sa.String(length=64), nullable=True))
