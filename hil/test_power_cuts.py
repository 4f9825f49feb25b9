"""Does a board come back from every power cut during an update, even where its disk lies about what it wrote?

How often and when: `--cuts 20 --cut-seed 7`.
"""

import random

import pytest

from hil.bench import Bench
from hil.board import Board
from hil.strategy import STATE, BoardStrategy, State
from hil.test_life_of_a_board import LONGEST_UPDATE_S

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600), pytest.mark.lg_feature(["install", "power"])]

LIES_FOR_S = 5.0
"""The disk acknowledges writes that it drops for so long before the power goes."""
_LYING = "hil-lying"
_FILE = "/var/hil-lying.img"


def test_every_cut_leaves_a_board_that_serves(lab: BoardStrategy, bench: Bench, pytestconfig: pytest.Config) -> None:
    lab.transition(State.SERVING)
    moments = random.Random(pytestconfig.getoption("cut_seed"))
    for number in range(pytestconfig.getoption("cuts")):
        at_s = moments.uniform(0, LONGEST_UPDATE_S)
        print(f"cut {number + 1} at {at_s:.1f} s")
        earlier = len(bench.placed)
        rollout = begin_update(lab, bench)
        lab.cut_power(after_s=at_s)
        board = lab.be_up()
        assert bench.see_through(board, rollout) in ("succeeded", "failed")
        bench.place(board, count=5)
        bench.answered(bench.placed[earlier:])


@pytest.mark.lg_feature("disk")
def test_disk_that_drops_acknowledged_writes_leaves_a_board_that_serves(
    lab: BoardStrategy, bench: Bench, pytestconfig: pytest.Config
) -> None:
    lab.transition(State.SERVING)
    move_state_to_lying_disk(lab.board)
    moments = random.Random(pytestconfig.getoption("cut_seed"))
    for _ in range(pytestconfig.getoption("cuts")):
        rollout = begin_update(lab, bench)
        set_lying(lab.board, after_s=moments.uniform(0, LONGEST_UPDATE_S))
        lab.cut_power(after_s=LIES_FOR_S)
        board = lab.be_up()
        mount_lying_disk(board)
        lab.wait_until_connected()
        assert bench.see_through(board, rollout) in ("succeeded", "failed")
        assert bench.is_serving(lab.board)


def begin_update(lab: BoardStrategy, bench: Bench) -> int:
    """Roll out the release that the board doesn't run, and give it items."""
    (slot,) = bench.fleet.device(bench.name)["reported"]["slots"]
    rollout = bench.fleet.start_rollout(bench.model, 3 - slot["current"]["version"], device=bench.name)
    bench.place(lab.board, count=10)
    return rollout


def move_state_to_lying_disk(board: Board) -> None:
    """Put the agent's state on a disk of its own that tells the truth as yet; the service isn't started at boot."""
    board.run("systemctl stop shoal-agent && systemctl mask --quiet --now shoal-agent-enrolled.path")
    board.run(f"systemctl disable --quiet shoal-agent; truncate --size=1G {_FILE} && mkfs.ext4 -q {_FILE}")
    board.run(f"mkdir -p /mnt/old && cp -a {STATE}/. /mnt/old/")
    mount_lying_disk(board, then=f"cp -a /mnt/old/. {STATE}/")


def mount_lying_disk(board: Board, *, then: str = "true") -> None:
    """Mount it after a start, and start the agent."""
    board.run(f"losetup /dev/loop0 {_FILE}")
    board.run(f"echo 0 $(blockdev --getsz /dev/loop0) linear /dev/loop0 0 | dmsetup create {_LYING}")
    board.run(f"mount /dev/mapper/{_LYING} {STATE} && {then} && chown shoal-agent: {STATE} && chmod 700 {STATE}")
    board.run("systemctl start shoal-agent")


def set_lying(board: Board, *, after_s: float) -> None:
    """From some moment on the disk drops every write and says that it wrote (dm-flakey, kernel documentation)."""
    table = "0 $(blockdev --getsz /dev/loop0) flakey /dev/loop0 0 0 3600 1 drop_writes"
    swap = f"dmsetup suspend --nolockfs {_LYING} && echo {table} | dmsetup load {_LYING} && dmsetup resume {_LYING}"
    board.run(f"sleep {after_s:.1f} && {swap}")
