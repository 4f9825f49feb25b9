"""Where do verdicts of tuning, kinds of boards and deaths of workers go?"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tuned",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("device_id", sa.String(length=63), nullable=False),
        sa.Column("stream", sa.String(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("model", sa.String(length=63), nullable=False),
        sa.Column("release", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("objective", sa.String(length=16), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("measured", sa.Text(), nullable=False),
        sa.Column("is_settled", sa.Boolean(), nullable=False),
        sa.Column("is_confirmed", sa.Boolean(), nullable=False),
        sa.Column("is_emulated", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name=op.f("fk_tuned_device_id_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tuned")),
    )
    op.create_index(op.f("ix_tuned_fingerprint_model_objective"), "tuned", ["fingerprint", "model", "objective"])
    op.create_index(op.f("ix_tuned_device_id_manifest_sha256"), "tuned", ["device_id", "manifest_sha256"])
    op.add_column("device", sa.Column("fingerprint", sa.String(length=64), nullable=True))
    op.add_column("latency", sa.Column("deaths", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.create_index(
        "ix_latency_deaths",
        "latency",
        ["received_at"],
        sqlite_where=sa.text("deaths > 0"),
        postgresql_where=sa.text("deaths > 0"),
    )
