"""Do the migrations make exactly the tables that the program expects?"""

from pathlib import Path

import shoal_fleet
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from shoal_fleet.database import open_engine
from shoal_fleet.schema import FEATURES, all_tables, migrate
from sqlalchemy import inspect


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


def test_every_feature_with_tables_is_migrated() -> None:
    folder = Path(shoal_fleet.__file__).parent
    features = {path.parent.name for path in folder.glob("*/models.py")}
    assert {module.__name__.split(".")[1] for module in FEATURES} == features
