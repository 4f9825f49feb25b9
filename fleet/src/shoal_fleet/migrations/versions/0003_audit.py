"""Where does the audit log go, and what do rollouts that wait for approval need?"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_GROWING = ("audit_entry", "audit_checkpoint")
"""Tables of which no row may be changed or removed."""


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "audit_entry",
        sa.Column("sequence", number, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(length=300), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_entry")),
    )
    op.create_table(
        "audit_checkpoint",
        sa.Column("sequence", number, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_checkpoint")),
    )
    op.add_column("rollout", sa.Column("created_by", sa.String(length=300), server_default=sa.text("''"), nullable=False))
    op.add_column("rollout", sa.Column("approvals_needed", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "rollout_approval",
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("actor", sa.String(length=300), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("approved_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollout.id"], name=op.f("fk_rollout_approval_rollout_id_rollout")),
        sa.PrimaryKeyConstraint("rollout_id", "actor", name=op.f("pk_rollout_approval")),
    )
    op.create_table(
        "rollout_policy",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("approvals", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_policy")),
    )
    for statement in _TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def _sqlite_triggers() -> list[str]:
    refuse = "SELECT RAISE(ABORT, '{table}: rows can only be added')"
    refusing = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} BEGIN {refuse.format(table=table)}; END"
        for table in _GROWING
        for verb in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE removes a row without a DELETE trigger; so a row may only come after the last.
    following = [
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
        f"WHEN NEW.sequence <= (SELECT COALESCE(MAX(sequence), -1) FROM {table}) "
        f"BEGIN {refuse.format(table=table)}; END"
        for table in _GROWING
    ]
    return refusing + following


def _postgresql_triggers() -> list[str]:
    function = (
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%: rows can only be added', TG_TABLE_NAME; END $$"
    )
    return [function] + [
        f"CREATE TRIGGER {table}_growing BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        for table in _GROWING
    ]


_TRIGGERS = {"sqlite": _sqlite_triggers(), "postgresql": _postgresql_triggers()}
