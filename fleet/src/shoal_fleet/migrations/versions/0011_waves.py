"""Where do waves of rollouts go?"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    empty = sa.text("''")
    op.create_table(
        "rollout_wave",
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("soaking_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollout.id"], name=op.f("fk_rollout_wave_rollout_id_rollout")),
        sa.PrimaryKeyConstraint("rollout_id", "number", name=op.f("pk_rollout_wave")),
    )
    op.add_column("rollout", sa.Column("plan", sa.Text(), nullable=False, server_default=empty))
    op.add_column("rollout", sa.Column("reason", sa.Text(), nullable=False, server_default=empty))
    op.add_column("rollout_device", sa.Column("wave", sa.Integer(), nullable=False, server_default=sa.text("1")))
    op.add_column("rollout_device", sa.Column("before_sha256", sa.String(length=64), nullable=False, server_default=empty))
