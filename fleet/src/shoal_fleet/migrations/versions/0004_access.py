"""Where do users, their roles, sessions and projects go?"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ROLES = ("viewer", "operator", "releaser", "admin")


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_project")),
    )
    op.create_table(
        "release_name",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["project.name"], name=op.f("fk_release_name_project_project")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_release_name")),
    )
    op.create_index(op.f("ix_release_name_project"), "release_name", ["project"])
    op.create_table(
        "user_account",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("password_hash", sa.String(length=300), nullable=True),
        sa.Column("subject", sa.String(length=300), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("disabled_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_account")),
        sa.UniqueConstraint("name", name=op.f("uq_user_account_name")),
        sa.UniqueConstraint("subject", name=op.f("uq_user_account_subject")),
    )
    _create_roles("user_role", "user_id", "user_account")
    op.create_table(
        "login_session",
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("last_seen_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user_account.id"], name=op.f("fk_login_session_user_id_user_account")),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_login_session")),
    )
    op.create_index(op.f("ix_login_session_user_id"), "login_session", ["user_id"])
    op.create_table(
        "login_failures",
        sa.Column("subject_sha256", sa.String(length=64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("subject_sha256", name=op.f("pk_login_failures")),
    )
    op.create_index(op.f("ix_login_failures_last_at"), "login_failures", ["last_at"])
    _create_roles("token_role", "token_id", "api_token")
    _move_old_rows()
    op.drop_column("api_token", "role")
    op.add_column("api_token", sa.Column("expires_at", sa.Double(), nullable=True))
    for table in ("device", "enrolment_token"):
        project = sa.Column("project", sa.String(length=63), server_default=sa.text("'default'"), nullable=False)
        op.add_column(table, project)
    op.create_index(op.f("ix_device_project"), "device", ["project"])


def _create_roles(table: str, owner: str, owners: str) -> None:
    op.create_table(
        table,
        sa.Column(owner, sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("role", sa.Enum(*_ROLES, name="role", native_enum=False, length=16), nullable=False),
        sa.ForeignKeyConstraint([owner], [f"{owners}.id"], name=op.f(f"fk_{table}_{owner}_{owners}")),
        sa.PrimaryKeyConstraint(owner, "project", "role", name=op.f(f"pk_{table}")),
    )


def _move_old_rows() -> None:
    """What there is goes into the project `default`; tokens count everywhere, as they did."""
    connection = op.get_bind()
    connection.execute(
        sa.text("INSERT INTO project (name, created_at) VALUES ('default', :now)"), {"now": _oldest(connection)}
    )
    connection.execute(sa.text("INSERT INTO release_name (name, project) SELECT DISTINCT name, 'default' FROM release"))
    connection.execute(
        sa.text(
            "INSERT INTO token_role (token_id, project, role) "
            "SELECT id, '*', CASE role WHEN 'admin' THEN 'admin' ELSE 'viewer' END FROM api_token"
        )
    )


def _oldest(connection: sa.Connection) -> float:
    """The fleet is about as old as its first token; a new one has none yet."""
    return connection.execute(sa.text("SELECT coalesce(min(created_at), 0) FROM api_token")).scalar_one()
