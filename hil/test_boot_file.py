"""Does a board enrol by itself at its start, with the file that somebody put on its boot partition?"""

import pytest

from hil.bench import Bench
from hil.host_fleet import wait_for
from hil.strategy import CONFIGURATION, CONNECT_S, BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature(["install", "power"])]

BOOT = "/boot"
TORN = 'token = "shoal1.eyJ'


def boot_with(lab: BoardStrategy, text: str) -> None:
    """As if the card had been in somebody's computer while the board was off."""
    lab.board.write(f"{BOOT}/shoal-enrol.toml", text)
    lab.board.run("sync")
    lab.transition(State.OFF)
    lab.be_up()


def test_a_file_that_is_damaged_is_put_aside_with_the_reason(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.INSTALLED)
    boot_with(lab, TORN)
    refused = lambda: None if lab.board.fails(f"test -e {BOOT}/shoal-enrol-refused.toml") else True  # noqa: E731
    wait_for("the file is refused", refused, timeout_s=CONNECT_S)
    assert "enrolment file: not TOML" in lab.board.read(f"{BOOT}/shoal-enrol-result.txt")
    assert lab.board.fails("systemctl is-active shoal-agent")


def test_a_board_enrols_by_the_file_on_its_boot_partition(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.INSTALLED)
    lab.board.write(CONFIGURATION, bench.configuration)
    boot_with(lab, f'token = "{bench.fleet.make_token(bench.name)}"\nname = "{bench.name}"\n')
    wait_for("the board enrols", lambda: bench.fleet.find_device(bench.name), timeout_s=CONNECT_S)
    lab.wait_until_connected()
    lab.on_disk = State.ENROLLED
    assert lab.board.fails(f"test -e {BOOT}/shoal-enrol.toml"), "the token is left where anybody finds it"
    lab.transition(State.SERVING)
