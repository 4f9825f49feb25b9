"""Is a fleet made once, whole, and by one server at a time?"""

import base64
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.access.service import authenticate
from shoal_fleet.database import make_sessions
from shoal_fleet.errors import BadConfiguration, Conflict
from shoal_fleet.pki.errors import BrokenAuthority
from shoal_fleet.state import StatePaths, initialise, lock_state, open_database, unlock

from tests.unit.fleet.boards import NOW


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / "state")


def test_first_token_is_that_of_an_administrator(paths: StatePaths) -> None:
    token = initialise(paths, now=NOW).token
    assert token is not None
    engine = open_database(paths)
    with make_sessions(engine)() as session:
        assert authenticate(session, token, now=NOW).held == {Held(EVERYWHERE, Role.ADMIN)}
    engine.dispose()


def test_second_time_gives_the_same_keys_and_no_token(paths: StatePaths) -> None:
    first = initialise(paths, now=NOW)
    second = initialise(paths, now=NOW + 1)
    assert second.token is None
    assert (second.fleet_keys, second.authority_sha256) == (first.fleet_keys, first.authority_sha256)


@pytest.mark.parametrize("missing", ["authority_certificate", "fleet_keys"])
def test_goes_on_where_power_ended_the_first_time(paths: StatePaths, missing: str) -> None:
    first = initialise(paths, now=NOW)
    getattr(paths, missing).unlink()
    assert initialise(paths, now=NOW).fleet_keys == first.fleet_keys
    assert getattr(paths, missing).exists()


def test_an_authority_without_its_database_is_not_taken_for_a_new_fleet(paths: StatePaths) -> None:
    initialise(paths, now=NOW)
    paths.database.unlink()
    with pytest.raises(BrokenAuthority, match="expected its key in the database, found none; restore"):
        initialise(paths, now=NOW)


def test_no_file_of_the_folder_holds_a_private_key_in_the_clear(paths: StatePaths) -> None:
    initialise(paths, now=NOW)
    files = [path for path in paths.folder.rglob("*") if path.is_file()]
    assert [path for path in files if b"PRIVATE KEY" in path.read_bytes()] == []


def test_public_file_holds_public_keys_only(paths: StatePaths) -> None:
    made = initialise(paths, now=NOW)
    content = json.loads(paths.fleet_keys.read_text())
    assert content == {
        "snapshot": made.fleet_keys.snapshot,
        "timestamp": made.fleet_keys.timestamp,
        "assignment": made.fleet_keys.assignment,
        "hpke": made.fleet_keys.hpke,
        "hybrid": made.fleet_keys.hybrid,
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


def test_key_beside_the_database_is_warned_of(paths: StatePaths, caplog: pytest.LogCaptureFixture) -> None:
    initialise(paths, now=NOW)
    assert "kek/kek.key lies in the state folder" in caplog.text


def test_key_elsewhere_is_not_warned_of_and_found_again(
    paths: StatePaths, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = initialise(paths, now=NOW, vault=unlock(paths, kek_uri=f"file:{tmp_path / 'kek.key'}", now=NOW))
    assert initialise(paths, now=NOW).fleet_keys == made.fleet_keys
    assert caplog.text == ""
    assert not (paths.folder / "kek").exists()


def test_back_up_that_leaves_tagged_folders_out_lacks_the_key(paths: StatePaths, tmp_path: Path) -> None:
    initialise(paths, now=NOW)
    archive = tmp_path / "back-up.tar"
    subprocess.run(["tar", "--create", "--exclude-caches-all", "--file", archive, "."], cwd=paths.folder, check=True)
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    assert "./fleet.db" in names
    assert [name for name in names if "kek" in name] == []


def test_restored_back_up_without_the_key_is_refused_and_makes_none(paths: StatePaths) -> None:
    initialise(paths, now=NOW)
    key = paths.folder / "kek" / "kek.key"
    key.unlink()
    with pytest.raises(BadConfiguration, match=r"kek\.key: No such file .* restore it"):
        initialise(paths, now=NOW)
    assert not key.exists()


def test_another_configured_key_is_told_from_the_one_that_counts(paths: StatePaths) -> None:
    initialise(paths, now=NOW)
    (paths.folder / "other.key").write_text(base64.b64encode(bytes(32)).decode())
    with pytest.raises(BadConfiguration, match=r"they are under file:kek/kek\.key; configure that as kek, or move"):
        unlock(paths, kek_uri="file:other.key", now=NOW)
