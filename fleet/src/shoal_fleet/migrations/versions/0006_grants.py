"""Where do wrapped content keys, the fleet's wrapped private keys and hybrid keys of devices go?"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What `fleet_grant` holds is moved to `release_key` when the fleet is started: only then are the keys there.
    op.create_table(
        "wrapping_key",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kek", sa.Text(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wrapping_key")),
    )
    op.create_table(
        "fleet_secret",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_fleet_secret")),
    )
    op.create_table(
        "release_key",
        sa.Column("release_id", sa.Integer(), nullable=False),
        sa.Column("ciphertext_sha256", sa.String(length=64), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["release_id"], ["release.id"], name=op.f("fk_release_key_release_id_release")),
        sa.PrimaryKeyConstraint("release_id", "ciphertext_sha256", name=op.f("pk_release_key")),
    )
    op.create_index(op.f("ix_release_key_ciphertext_sha256"), "release_key", ["ciphertext_sha256"])
    op.add_column("device", sa.Column("hybrid_key", sa.String(), nullable=True))
