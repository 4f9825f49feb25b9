"""Do boards come back from a fleet that was taken over with its authority's key, and are they then out of its reach?"""

import shutil
import socket
import time
from pathlib import Path

import pytest
from shoal_agent.errors import FleetRefused, FleetUnreachable
from shoal_agent.state import AUTHORITY, load_device
from shoal_fleet.authority_cli import read_status
from shoal_fleet.state import StatePaths

from tests.system.fleet.device_site import FILES, Enrolled, enrol_device
from tests.system.fleet.drill_site import Person, run_updater
from tests.system.fleet.fleet_site import run_cli, run_fleet, served_again


def authorities(board: Enrolled) -> int:
    return (board.state / AUTHORITY).read_text().count("BEGIN CERTIFICATE")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rotate(state: Path) -> str:
    """Fingerprint of the authority that issues from then on."""
    done = run_cli(state, "authority", "rotate")
    assert done.returncode == 0, done.stderr
    return read_status(StatePaths(state), now=time.time())[-1].fingerprint


def test_boards_come_back_and_follow_the_thief_no_more(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        own, url = fleet.program.state, fleet.program.addresses["operators_url"]
        publisher = Person(fleet, tmp_path / "publisher")
        assert publisher.keys("init").code == 0
        board = enrol_device(fleet, tmp_path, "board")
        assert fleet.program.end() == 0
        stolen = shutil.copytree(own, tmp_path / "stolen" / "state")

        # Where it was, the thief names an authority and then an address of their own, and the real ones no more.
        rotate(stolen)
        assert run_cli(stolen, "authority", "retire", "1", "--despite-devices").returncode == 0
        for options in ([], ["--port", str(free_port())]):
            with served_again(fleet, *options, state=stolen):
                board.renew()
                assert board.is_let_in()
        moved = load_device(FILES, board.state)
        assert (moved.operators_url != url, moved.earlier_operators_urls) == (True, (url,))
        assert authorities(board) == 2, "the real one isn't forgotten"

        # The owner has the server back, and makes an authority whose key nobody else has.
        new = rotate(own)
        with served_again(fleet):
            assert not board.is_let_in(), "its certificate is the thief's"
            board.renew()
            assert board.is_let_in()
            assert publisher.keys("authorities", new).code == 0
            assert publisher.keys("show").json["authorities"] == [new]
            _, code, error = run_updater(board.state, refresh=True)
            assert code == 0, error
            assert authorities(board) == 1

        with served_again(fleet, state=stolen), pytest.raises((FleetUnreachable, FleetRefused)):
            board.renew()
        assert authorities(board) == 1
