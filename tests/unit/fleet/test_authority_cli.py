"""Is an authority followed and retired only where nobody is lost by it?"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from shoal_fleet import authority_cli
from shoal_fleet.database import make_sessions, writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.errors import BadConfiguration, Conflict
from shoal_fleet.kek.models import FleetSecret
from shoal_fleet.kek.service import read_secret_key
from shoal_fleet.pki.errors import BrokenAuthority
from shoal_fleet.state import StatePaths, initialise, lock_state, open_database, unlock


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    paths = StatePaths(tmp_path / "state")
    initialise(paths, now=time.time())
    return paths


@pytest.fixture
def server_runs(paths: StatePaths) -> Iterator[None]:
    lock = lock_state(paths)
    yield
    os.close(lock)


def run(paths: StatePaths, *words: str) -> None:
    parser = argparse.ArgumentParser()
    authority_cli.add_parsers(parser.add_subparsers(), state=paths.folder)
    arguments = parser.parse_args(["authority", *words])
    arguments.run(arguments, paths)


def states(paths: StatePaths) -> list[str]:
    return [one.state for one in authority_cli.read_status(paths, now=time.time())]


def as_before(paths: StatePaths) -> Path:
    """Have the key of the first authority lie where an earlier version had it."""
    vault, engine = unlock(paths, now=time.time()), open_database(paths)
    with make_sessions(engine)() as session, writing(session):
        der = read_secret_key(session, "authority-1", vault=vault)
        assert der is not None
        session.delete(session.get_one(FleetSecret, "authority-1"))
    engine.dispose()
    key = load_der_private_key(der, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    file = paths.authority / "ca.key"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


def add_certificates(paths: StatePaths, *, authorities: list[str | None]) -> None:
    """Of one device, in use; and one that has ended."""
    engine = open_database(paths)
    with make_sessions(engine)() as session, writing(session):
        device = Device(
            id="d-one", name="one", profile="", agent_version="", identity_key="", hpke_key="", enrolled_at=0.0
        )
        session.add(device)
        session.flush()
        for number, authority in enumerate(authorities):
            session.add(
                DeviceCertificate(serial=f"{number}", device_id="d-one", not_after=4e9, authority_sha256=authority)
            )
        session.add(DeviceCertificate(serial="ff", device_id="d-one", not_after=1.0))
    engine.dispose()


def test_status_counts_certificates_by_authority(paths: StatePaths, capsys: pytest.CaptureFixture[str]) -> None:
    run(paths, "rotate")
    first, second = (one.fingerprint for one in authority_cli.read_status(paths, now=time.time()))
    add_certificates(paths, authorities=[None, first, second])
    capsys.readouterr()
    run(paths, "status", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert [(one["number"], one["state"], one["certificates"]) for one in shown] == [
        (1, "followed", 2),
        (2, "issues", 1),
    ]
    run(paths, "status")
    assert f"2  issues    until {shown[1]['not_after']}  1 device certificates" in capsys.readouterr().out


def test_one_by_which_devices_have_certificates_is_retired_only_on_request(paths: StatePaths) -> None:
    run(paths, "rotate")
    add_certificates(paths, authorities=[None])
    with pytest.raises(Conflict, match="1 device certificates by it still count"):
        run(paths, "retire", "1")
    assert states(paths) == ["followed", "issues"]
    run(paths, "retire", "1", "--despite-devices")
    assert states(paths) == ["retired", "issues"]
    initialise(paths, now=time.time())


def test_no_first_authority_is_made_anew_where_certificates_are_lost(paths: StatePaths) -> None:
    run(paths, "rotate")
    run(paths, "retire", "1")
    shutil.rmtree(paths.authority)
    with pytest.raises(BrokenAuthority, match=r"certificates of authority 2, .* found none; restore"):
        initialise(paths, now=time.time())
    assert not paths.authority.exists()


def test_only_a_new_authority_needs_the_key_encryption_key(paths: StatePaths) -> None:
    run(paths, "rotate")
    (paths.folder / "kek" / "kek.key").unlink()
    assert states(paths) == ["followed", "issues"]
    run(paths, "retire", "1")
    assert states(paths) == ["retired", "issues"]
    with pytest.raises(BadConfiguration, match="without this key no secret of the fleet opens"):
        run(paths, "rotate")


@pytest.mark.parametrize("words", [["rotate"], ["status"]], ids=["rotate", "status"])
def test_a_key_of_an_earlier_version_counts_before_the_next_start(paths: StatePaths, words: list[str]) -> None:
    as_before(paths)
    assert states(paths) == ["issues"]
    run(paths, *words)
    assert states(paths)[0] == {"rotate": "followed", "status": "issues"}[words[0]]


def test_one_that_is_retired_leaves_no_file_of_an_earlier_version(paths: StatePaths) -> None:
    run(paths, "rotate")
    file = as_before(paths)
    run(paths, "retire", "1")
    assert not file.exists()
    assert states(paths) == ["retired", "issues"]


@pytest.mark.parametrize("number", ["0", "1", "2", "-1"])
def test_the_one_that_issues_is_never_retired(paths: StatePaths, number: str) -> None:
    with pytest.raises(BrokenAuthority):
        run(paths, "retire", number)
    assert states(paths) == ["issues"]


@pytest.mark.usefixtures("server_runs")
@pytest.mark.parametrize("words", [["rotate"], ["retire", "1"]])
def test_nothing_is_changed_under_a_running_server(paths: StatePaths, words: list[str]) -> None:
    with pytest.raises(Conflict, match="another shoal-fleet serves"):
        run(paths, *words)
    assert states(paths) == ["issues"]
