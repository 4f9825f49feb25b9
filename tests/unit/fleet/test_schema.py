"""Do the migrations make exactly the tables that the program expects?"""

from pathlib import Path

import shoal_fleet
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from shoal_fleet.database import for_writing, open_engine
from shoal_fleet.schema import FEATURES, all_tables, migrate
from sqlalchemy import Engine, inspect, text


def test_migrated_database_agrees_with_the_models(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "fleet.db")
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, all_tables()) == []
        made = set(inspect(connection).get_table_names())
    engine.dispose()
    assert made == {*all_tables().tables, "alembic_version"}


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "a %(odd) name.db")
    migrate(engine)
    before = (tmp_path / "a %(odd) name.db").read_bytes()
    migrate(engine)
    assert (tmp_path / "a %(odd) name.db").read_bytes() == before
    engine.dispose()


def test_a_database_of_the_first_version_keeps_its_rows(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "fleet.db")
    upgrade(engine, "0001")
    with engine.connect() as connection:
        assert "tuned" not in inspect(connection).get_table_names()
    with for_writing(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO device (id, name, profile, agent_version, identity_key, hpke_key, enrolled_at, is_online, "
                "reported_counter, reported_epoch, reported_generation) "
                "VALUES ('d-yard', 'yard', 'generic', '0.1.0', 'key', 'key', 1, 1, 7, 1, 2)"
            )
        )
        connection.execute(
            text(
                "INSERT INTO latency (device_id, stream, sequence, from_at, to_at, received_at, release, version, "
                "manifest_sha256, answers, errors, latency_ms) "
                "VALUES ('d-yard', 's', 1, 0, 5, 5, 'notes', 1, 'm', 3, 0, '{}')"
            )
        )
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), all_tables()) == []
        assert connection.execute(text("SELECT answers, deaths FROM latency")).all() == [(3, 0)]
        assert connection.execute(text("SELECT name, reported_counter, fingerprint FROM device")).all() == [
            ("yard", 7, None)
        ]
    engine.dispose()


def upgrade(engine: Engine, revision: str) -> None:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(shoal_fleet.__file__).parent / "migrations"))
    with for_writing(engine) as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def test_every_feature_with_tables_is_migrated() -> None:
    folder = Path(shoal_fleet.__file__).parent
    features = {path.parent.name for path in folder.glob("*/models.py")}
    assert {module.__name__.split(".")[1] for module in FEATURES} == features
