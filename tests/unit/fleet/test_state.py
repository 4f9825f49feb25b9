"""Is a fleet made once, whole, and by one server at a time?"""

import json
import os
from pathlib import Path

import pytest
from shoal_fleet.access.models import Role
from shoal_fleet.access.service import authenticate
from shoal_fleet.database import make_sessions
from shoal_fleet.errors import Conflict
from shoal_fleet.pki.authority import Authority
from shoal_fleet.state import StatePaths, initialise, lock_state, open_database

from tests.unit.fleet.boards import NOW


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / "state")


def test_first_token_is_that_of_an_administrator(paths: StatePaths) -> None:
    token = initialise(paths, now=NOW).token
    assert token is not None
    engine = open_database(paths)
    with make_sessions(engine)() as session:
        assert authenticate(session, token, now=NOW).role is Role.ADMIN
    engine.dispose()


def test_second_time_gives_the_same_keys_and_no_token(paths: StatePaths) -> None:
    first = initialise(paths, now=NOW)
    second = initialise(paths, now=NOW + 1)
    assert second.token is None
    assert (second.fleet_keys, second.authority_sha256) == (first.fleet_keys, first.authority_sha256)


@pytest.mark.parametrize("missing", ["database", "authority_certificate", "fleet_keys"])
def test_goes_on_where_power_ended_the_first_time(paths: StatePaths, missing: str) -> None:
    initialise(paths, now=NOW)
    getattr(paths, missing).unlink()
    initialise(paths, now=NOW)
    assert getattr(paths, missing).exists()
    Authority.load(paths.authority)


def test_public_file_holds_public_keys_only(paths: StatePaths) -> None:
    made = initialise(paths, now=NOW)
    content = json.loads(paths.fleet_keys.read_text())
    assert content == {
        "snapshot": made.fleet_keys.snapshot,
        "timestamp": made.fleet_keys.timestamp,
        "assignment": made.fleet_keys.assignment,
        "hpke": made.fleet_keys.hpke,
    }


def test_token_is_nowhere_on_disk(paths: StatePaths) -> None:
    token = initialise(paths, now=NOW).token
    assert token is not None
    files = [path for path in paths.folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if token.encode() in path.read_bytes()] == []


def test_one_server_at_a_time(paths: StatePaths) -> None:
    initialise(paths, now=NOW)
    held = lock_state(paths)
    with pytest.raises(Conflict, match="another shoal-fleet"):
        lock_state(paths)
    os.close(held)
    os.close(lock_state(paths))
