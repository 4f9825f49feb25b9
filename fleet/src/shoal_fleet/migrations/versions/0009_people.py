"""Where does it go who answers for a token, a rollout and an approval, and which browsers and logins are known?"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, columns in (
        ("api_token", ("made_by", "person")),
        ("rollout", ("person",)),
        ("rollout_approval", ("person",)),
    ):
        for name in columns:
            op.add_column(table, _name(name))
    op.add_column("login_session", sa.Column("vouched_until", sa.Double(), nullable=True))
    op.create_table(
        "known_browser",
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user_account.id"], name=op.f("fk_known_browser_user_id_user_account")),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_known_browser")),
    )
    op.create_index(op.f("ix_known_browser_user_id"), "known_browser", ["user_id"])
    _create_policies()
    # A login by the identity provider counts no longer than its word: who is logged in so logs in once more.
    op.execute("DELETE FROM login_session WHERE user_id IN (SELECT id FROM user_account WHERE subject IS NOT NULL)")
    _name_people()


def _create_policies() -> None:
    op.create_table(
        "approval_policy",
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("approvals", sa.Integer(), nullable=False),
        sa.Column("proposed", sa.Integer(), nullable=True),
        _name("proposed_by"),
        _name("proposed_person"),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_approval_policy")),
    )
    op.create_table(
        "policy_approval",
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("person", sa.String(length=300), nullable=False),
        sa.Column("actor", sa.String(length=300), nullable=False),
        sa.Column("approved_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["approval_policy.project"], name=op.f("fk_policy_approval_project_approval_policy")
        ),
        sa.PrimaryKeyConstraint("project", "person", name=op.f("pk_policy_approval")),
    )
    op.execute("INSERT INTO approval_policy (project, approvals) SELECT '*', approvals FROM rollout_policy")
    op.drop_table("rollout_policy")


def _name_people() -> None:
    """By the audit log, which says who made each token; where it doesn't, nobody answers for it."""
    connection = op.get_bind()
    made: dict[str, str] = {}
    people: dict[str, str] = {}
    query = "SELECT actor, subject FROM audit_entry WHERE action = 'token.made' ORDER BY sequence"
    for actor, name in connection.execute(sa.text(query)):
        made[f"token:{name}"] = actor
        people[f"token:{name}"] = people.get(actor, "") if actor.startswith("token:") else actor
    for token, maker in made.items():
        connection.execute(
            sa.text(
                "UPDATE api_token SET made_by = :maker, person = :person WHERE name = :name AND revoked_at IS NULL"
            ),
            {"maker": maker, "person": people[token], "name": token.removeprefix("token:")},
        )
    for table, column in (("rollout", "created_by"), ("rollout_approval", "actor")):
        for (actor,) in connection.execute(sa.text(f"SELECT DISTINCT {column} FROM {table}")).all():  # noqa: S608
            person = people.get(actor, "") if actor.startswith("token:") else actor
            connection.execute(
                sa.text(f"UPDATE {table} SET person = :person WHERE {column} = :actor"),  # noqa: S608
                {"person": person, "actor": actor},
            )


def _name(column: str) -> sa.Column[str]:
    return sa.Column(column, sa.String(length=300), server_default=sa.text("''"), nullable=False)
