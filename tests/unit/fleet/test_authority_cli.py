"""Is an authority followed and retired only where nobody is lost by it?"""

import argparse
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from shoal_fleet import authority_cli
from shoal_fleet.database import make_sessions, writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.errors import Conflict
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority
from shoal_fleet.pki.errors import BrokenAuthority
from shoal_fleet.state import StatePaths, lock_state, open_database


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    Authority.create(tmp_path / "authority", now=datetime.now(UTC))
    return StatePaths(tmp_path)


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
    first, second = (one.fingerprint for one in Authorities.load(paths.authority).generations)
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
    assert not Authorities.load(paths.authority).generations[0].is_retired
    run(paths, "retire", "1", "--despite-devices")
    assert Authorities.load(paths.authority).generations[0].is_retired


@pytest.mark.parametrize("number", ["0", "1", "2", "-1"])
def test_the_one_that_issues_is_never_retired(paths: StatePaths, number: str) -> None:
    with pytest.raises(BrokenAuthority):
        run(paths, "retire", number)
    assert Authorities.load(paths.authority).issuer is not None


@pytest.mark.usefixtures("server_runs")
@pytest.mark.parametrize("words", [["rotate"], ["retire", "1"]])
def test_nothing_is_changed_under_a_running_server(paths: StatePaths, words: list[str]) -> None:
    with pytest.raises(Conflict, match="another shoal-fleet serves"):
        run(paths, *words)
    assert len(Authorities.load(paths.authority).generations) == 1
