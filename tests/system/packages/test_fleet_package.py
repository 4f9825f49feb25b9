"""Does the server's package install, make a fleet, upgrade, refuse to go back, and leave as it should?"""

from pathlib import Path

import pytest

from tests.system.packages.conftest import Builds, Installations
from tests.system.packages.debian_root import DebianRoot
from tests.system.packages.package_files import with_version

pytestmark = pytest.mark.long

STATE = "/var/lib/shoal-fleet"
DATABASE = f"{STATE}/fleet.db"
SET_REVISION = f"""
import sqlite3, sys
with sqlite3.connect("{DATABASE}") as database:
    database.execute("UPDATE alembic_version SET version_num = ?", (sys.argv[1],))
"""


@pytest.fixture(params=["bookworm", "trixie"])
def suite(request: pytest.FixtureRequest) -> str:
    """A release of Debian."""
    return str(request.param)


@pytest.fixture
def fleet(suite: str, install: Installations) -> DebianRoot:
    """A system on which a fleet was made with the package."""
    system = install("shoal-fleet", suite).system
    system.run("shoal-fleet", "init")
    return system


def test_fleet_is_made_by_its_own_user(fleet: DebianRoot) -> None:
    assert fleet.run("stat", "--format", "%U %a", DATABASE).stdout == "shoal-fleet 600\n"
    assert fleet.run("dpkg", "--verify", "shoal-fleet").stdout == ""
    assert fleet.run("shoal", "--version").stdout.startswith("shoal ")
    for unit in ("shoal-fleet.service", "shoal-broker.service", "shoal-broker-reload.path"):
        assert fleet.run("systemctl", "is-enabled", unit).stdout == "enabled\n"


def test_another_version_keeps_the_fleet(suite: str, fleet: DebianRoot, builds: Builds, tmp_path: Path) -> None:
    before = fleet.run("sha256sum", DATABASE).stdout

    fleet.install(with_version(builds("shoal-fleet", suite), "9.9.9", folder=tmp_path))
    fleet.install(builds("shoal-fleet", suite))

    assert fleet.run("sha256sum", DATABASE).stdout == before


def test_older_version_is_refused_where_the_database_is_newer(
    suite: str, fleet: DebianRoot, builds: Builds, tmp_path: Path
) -> None:
    newer = with_version(builds("shoal-fleet", suite), "9.9.9", folder=tmp_path)
    fleet.install(newer)
    fleet.run("setpriv", "--reuid=shoal-fleet", "--clear-groups", "/usr/bin/python3", "-c", SET_REVISION, "9999")

    refused = fleet.install(builds("shoal-fleet", suite), is_allowed_to_fail=True)

    assert refused.returncode != 0
    assert "has brought the database to revision 9999" in refused.stderr
    version = fleet.run("dpkg-query", "--show", "--showformat", "${Version} ${db:Status-Status}", "shoal-fleet").stdout
    assert version == "9.9.9 installed"
    assert fleet.run("shoal-fleet", "--help").returncode == 0


def test_removing_keeps_the_fleet_and_purging_removes_it(fleet: DebianRoot) -> None:
    fleet.run("dpkg", "--remove", "shoal-fleet")

    assert fleet.has(DATABASE)
    assert not fleet.has("/usr/lib/shoal-fleet")
    fleet.run("dpkg", "--purge", "shoal-fleet")
    assert not fleet.has(STATE)
    assert not fleet.has("/etc/shoal")


def test_operators_command_and_server_are_not_both_installed(suite: str, fleet: DebianRoot, builds: Builds) -> None:
    refused = fleet.install(builds("shoal", suite), is_allowed_to_fail=True)

    assert refused.returncode != 0
    assert "conflict" in refused.stderr
