"""Which tables are there, and how does an older database come up to them?"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData

from shoal_fleet.access import models as access
from shoal_fleet.audit import models as audit
from shoal_fleet.database import Base, for_writing
from shoal_fleet.devices import models as devices
from shoal_fleet.enrolment import models as enrolment
from shoal_fleet.kek import models as kek
from shoal_fleet.labels import models as labels
from shoal_fleet.messaging import models as messaging
from shoal_fleet.releases import models as releases
from shoal_fleet.rollouts import models as rollouts
from shoal_fleet.secrets import models as secrets
from shoal_fleet.telemetry import models as telemetry
from shoal_fleet.trust import models as trust
from shoal_fleet.tuning import models as tuning

FEATURES = (
    access,
    audit,
    devices,
    enrolment,
    kek,
    labels,
    messaging,
    releases,
    rollouts,
    secrets,
    telemetry,
    trust,
    tuning,
)
"""Modules whose tables make up the database."""

_MIGRATIONS = Path(__file__).parent / "migrations"


def all_tables() -> MetaData:
    """Every table of the fleet."""
    return Base.metadata


def migrate(engine: Engine) -> None:
    """Bring the database to the newest version, in one transaction; a new one gets all tables."""
    configuration = Config()
    configuration.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with for_writing(engine) as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")
