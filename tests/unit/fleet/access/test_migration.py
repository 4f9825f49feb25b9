"""Do the tokens and things of a fleet of before keep their place when projects and roles come in?"""

from pathlib import Path

import shoal_fleet
from alembic import command
from alembic.config import Config
from shoal_fleet.access.projects import list_projects, project_of_release
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.access.service import authenticate, list_tokens
from shoal_fleet.database import for_writing, make_sessions, open_engine
from shoal_fleet.schema import migrate
from sqlalchemy import text

SECRET_OF_ADMIN = "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918"
"""SHA-256 of `admin`, by sha256sum."""
EVERYTHING = frozenset({EVERYWHERE})


def test_tokens_keep_what_they_could_do_and_things_go_into_the_first_project(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "fleet.db")
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(shoal_fleet.__file__).parent / "migrations"))
    with for_writing(engine) as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "0002")
    with for_writing(engine) as connection:
        for name, role, digest in (("boss", "admin", SECRET_OF_ADMIN), ("eye", "read", "0" * 64)):
            connection.execute(
                text(
                    "INSERT INTO api_token (name, secret_sha256, role, created_at, last_used_at) "
                    "VALUES (:name, :digest, :role, 7, 8)"
                ),
                {"name": name, "digest": digest, "role": role},
            )
        connection.execute(
            text(
                "INSERT INTO device (id, name, profile, agent_version, identity_key, hpke_key, enrolled_at, is_online, "
                "reported_counter, reported_epoch, reported_generation) "
                "VALUES ('d-yard', 'yard', 'generic', '0.1.0', 'key', 'key', 1, 1, 7, 1, 2)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO release (name, version, manifest_sha256, targets_version, created_at) "
                "VALUES ('notes', 1, 'a', 1, 1), ('notes', 2, 'b', 2, 2)"
            )
        )
        connection.execute(
            text("INSERT INTO enrolment_token (secret_sha256, name, created_at, expires_at) VALUES ('c', 'roof', 1, 2)")
        )
    migrate(engine)
    with make_sessions(engine)() as session:
        assert authenticate(session, "admin", now=9).held == {Held(EVERYWHERE, Role.ADMIN)}
        assert [
            (one.row.name, one.held, one.row.last_used_at, one.row.expires_at)
            for one in list_tokens(session, within=EVERYTHING)
        ] == [
            ("boss", [Held(EVERYWHERE, Role.ADMIN)], 8, None),
            ("eye", [Held(EVERYWHERE, Role.VIEWER)], 8, None),
        ]
        assert [project.name for project in list_projects(session, within=EVERYTHING)] == ["default"]
        assert project_of_release(session, "notes") == "default"
        for table in ("device", "enrolment_token"):
            assert session.execute(text(f"SELECT project FROM {table}")).all() == [("default",)]
    engine.dispose()
