"""Does a fleet go over to another authority, with boards that were there all along and boards that weren't?"""

import time
from pathlib import Path

from shoal_agent.state import AUTHORITY
from shoal_fleet.authority_cli import AuthorityStatus, read_status
from shoal_fleet.state import StatePaths
from shoal_wire.token import parse_token

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.device_site import enrol_device
from tests.system.fleet.drill_site import Person, run_updater
from tests.system.fleet.fleet_site import run_cli, run_fleet, served_again


def status(state: Path) -> list[AuthorityStatus]:
    return read_status(StatePaths(state), now=time.time())


def test_an_authority_is_followed_and_retired_and_no_board_is_lost(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        state = fleet.program.state
        publisher = Person(fleet, tmp_path / "publisher")
        assert publisher.keys("init").code == 0
        diligent, sleeper = (enrol_device(fleet, tmp_path, name) for name in ("diligent", "sleeper"))
        early = fleet.make_token("early")
        assert fleet.program.end() == 0

        done = run_cli(state, "authority", "rotate")
        assert (done.returncode, "made authority" in done.stdout) == (0, True), done.stderr
        assert f"shoal keys authorities {' '.join(one.fingerprint for one in status(state))}" in done.stdout
        assert [(one.state, one.certificates) for one in status(state)] == [("followed", 2), ("issues", 0)]

        with served_again(fleet):
            wait_until(lambda: diligent.is_let_in() and sleeper.is_let_in(), what="both are let in as they are")
            diligent.renew()
            assert diligent.is_let_in()
            assert (diligent.state / AUTHORITY).read_text().count("BEGIN CERTIFICATE") == 2
            assert parse_token(fleet.make_token("late")).ca_sha256 == status(state)[1].fingerprint
            newcomer = enrol_device(fleet, tmp_path, "newcomer")
            assert newcomer.is_let_in()
            assert enrol_device(fleet, tmp_path, "early", token=early).is_let_in(), "a token of before is still good"

        done = run_cli(state, "authority", "retire", "1", "--despite-devices")
        assert done.returncode == 0, done.stderr
        assert [one.state for one in status(state)] == ["retired", "issues"]
        new = status(state)[1].fingerprint
        assert f"shoal keys authorities {new} --publisher" in done.stdout

        with served_again(fleet):
            wait_until(lambda: diligent.is_let_in() and newcomer.is_let_in(), what="who has a new certificate is in")
            assert not sleeper.is_let_in()
            sleeper.renew()
            diligent.renew()
            for board in (sleeper, diligent):
                assert board.is_let_in()
                assert (board.state / AUTHORITY).read_text().count("BEGIN CERTIFICATE") == 2, "none was forgotten"
            old = status(state)[0].fingerprint
            assert "it has " + new in publisher.keys("authorities", old, new).err, "the fleet names it no more"
            assert publisher.keys("authorities", new).code == 0
            for board in (sleeper, diligent):
                _, code, error = run_updater(board.state, refresh=True)
                assert code == 0, error
                assert (board.state / AUTHORITY).read_text().count("BEGIN CERTIFICATE") == 1
                board.renew()
                assert board.is_let_in()
