"""Is it known of a fleet of before who answers for its tokens and rollouts, as far as its log says it?"""

from pathlib import Path

import shoal_fleet
from alembic import command
from alembic.config import Config
from shoal_fleet.access.models import ApiToken
from shoal_fleet.audit import service as audit
from shoal_fleet.database import Sessions, for_writing, make_sessions, open_engine, writing
from shoal_fleet.rollouts.models import Rollout, RolloutApproval
from shoal_fleet.rollouts.policy import find_approvals_needed
from shoal_fleet.schema import migrate
from sqlalchemy import Engine, select, text

MADE = (
    ("user:anna", "ci"),
    ("token:ci", "night"),
    ("token:unknown", "odd"),
    ("user:anna", "again"),
    ("user:bert", "again"),
)
"""Who made which token, in order; `old` was made before there was a log."""


def upgrade(engine: Engine, revision: str) -> None:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(shoal_fleet.__file__).parent / "migrations"))
    with for_writing(engine) as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def fill(sessions: Sessions) -> None:
    """Rows as the version before wrote them."""
    with sessions() as session, writing(session):
        for actor, name in MADE:
            audit.append(session, actor=actor, action="token.made", subject=name, detail={}, now=1.0)
        for number, name in enumerate(("ci", "night", "odd", "again", "old")):
            values = {"name": name, "digest": f"{number}" * 64}
            session.execute(
                text("INSERT INTO api_token (name, secret_sha256, created_at) VALUES (:name, :digest, 1)"), values
            )
        for number, actor in enumerate(("user:carl", "token:night", "token:old"), start=1):
            session.execute(
                text(
                    "INSERT INTO rollout (id, release, version, manifest_sha256, probation, state, created_by, "
                    "approvals_needed, created_at) VALUES (:id, 'notes', 1, 'm', '{}', 'waiting', :actor, 1, 1)"
                ),
                {"id": number, "actor": actor},
            )
        session.execute(text("INSERT INTO rollout_approval VALUES (1, 'token:again', 'digest', 1)"))
        session.execute(text("INSERT INTO rollout_policy (id, approvals) VALUES (1, 2)"))
        session.execute(
            text(
                "INSERT INTO user_account (id, name, subject, created_at) "
                "VALUES (1, 'carl', NULL, 1), (2, 'dora', 's', 1)"
            )
        )
        session.execute(text("INSERT INTO login_session VALUES ('a', 1, 1, 1), ('b', 2, 1, 1)"))


def test_people_are_found_by_the_log(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "fleet.db")
    upgrade(engine, "0008")
    fill(make_sessions(engine))
    migrate(engine)
    with make_sessions(engine)() as session:
        tokens = {row.name: (row.made_by, row.person) for row in session.scalars(select(ApiToken))}
        rollouts = {row.id: row.person for row in session.scalars(select(Rollout))}
        approval = session.scalars(select(RolloutApproval)).one()
        assert tokens == {
            "ci": ("user:anna", "user:anna"),
            "night": ("token:ci", "user:anna"),
            "odd": ("token:unknown", ""),
            "again": ("user:bert", "user:bert"),
            "old": ("", ""),
        }
        assert rollouts == {1: "user:carl", 2: "user:anna", 3: ""}
        assert (approval.actor, approval.person) == ("token:again", "user:bert")
        assert find_approvals_needed(session) == 2
        assert session.scalars(text("SELECT secret_sha256 FROM login_session")).all() == ["a"]
    engine.dispose()
