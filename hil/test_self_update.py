"""Does a board take a newer agent, and go back by itself from one that is cut off, crashes or never reports?

The agent that it has is a package's, started by systemd, which starts the guard as well.
"""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hil.bench import ROOT, Bench
from hil.board import Board
from hil.host_fleet import wait_for
from hil.measured import Measured
from hil.strategy import CONNECT_S, STATE, BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature(["install", "power"])]

GOOD, GOOD_TOO, CRASHES, IS_MUTE = 1, 2, 3, 4
"""Releases of the agent."""
FAULTS = {
    CRASHES: (
        "daemon/daemon.py",
        "\nimport os\nif 'SHOAL_AGENT_TREE' in os.environ:\n    raise SystemExit('crashes at import')\n",
    ),
    IS_MUTE: ("daemon/link.py", "\nLink.publish = lambda self, channel, payload, *, is_retained=False: False\n"),
}
"""Module of the agent that a fault is in, and lines that follow its own. A self-test knows no such variable."""
ENDS_S = 3600.0
PATIENCE = ("--probation-deadline", "900", "--probation-answers", "1")
HASTE = ("--probation-deadline", "120", "--probation-answers", "1")
LONGEST_S = 240.0
"""Power is cut within this time of the start of a rollout."""


@pytest.fixture(scope="module")
def releases(lab: BoardStrategy, bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The fleet has releases of the agent for the board, of which it runs none."""
    lab.transition(State.SERVING)
    machine = lab.board.run("uname -m")
    python = lab.board.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'")
    folder = tmp_path_factory.mktemp("agents")
    for version in (GOOD, GOOD_TOO, *FAULTS):
        tree, out = folder / f"tree-{version}", folder / f"agent-{version}"
        make_tree(tree, machine=machine, python=python)
        if version in FAULTS:
            name, lines = FAULTS[version]
            module = tree / "site-packages/shoal_agent" / name
            module.write_text(module.read_text() + lines)
        bench.fleet.command("shoal", "release", "agent", str(tree), "--version", str(version), "--out", str(out))
        bench.fleet.create_release(out)


def make_tree(folder: Path, *, machine: str, python: str) -> None:
    program = [sys.executable, str(ROOT / "packaging/tree.py"), "agent", "--machine", machine, "--python", python]
    subprocess.run([*program, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)


def begin(bench: Bench, version: int, *, options: tuple[str, ...]) -> int:
    return bench.fleet.start_rollout("shoal-agent", version, device=bench.name, options=options)


def end(bench: Bench, rollout: int) -> tuple[str, str]:
    """How it ended, and the reason that the board gave."""
    state = wait_for(f"rollout {rollout} ends", lambda: bench.fleet.ended_state(rollout), timeout_s=ENDS_S)
    (attempt,) = bench.fleet.get(f"/api/v1/rollouts/{rollout}")["devices"]
    return state, str(attempt["reason"])


def running_tree(board: Board) -> str:
    """Name of the tree that the agent runs from; empty for the package's own."""
    return board.run(f"readlink {STATE}/agent/current | xargs -r basename")


def runs_good_agent(board: Board) -> bool:
    return running_tree(board).startswith((f"{GOOD}-", f"{GOOD_TOO}-"))


def expect_good_agent(lab: BoardStrategy, bench: Bench) -> None:
    """The board runs a good release of the agent, committed, and serves."""
    lab.wait_until_connected()
    trial_is_over = lambda: lab.board.fails(f"test -e {STATE}/agent/trial") or None  # noqa: E731
    wait_for("the trial is over", trial_is_over, timeout_s=CONNECT_S)
    assert runs_good_agent(lab.board)
    assert bench.is_serving(lab.board)


def test_a_board_takes_a_newer_agent_and_serves_on(
    lab: BoardStrategy, bench: Bench, releases: None, measured: Measured
) -> None:
    assert running_tree(lab.board) == ""
    with measured.seconds("update of the agent"):
        state, reason = end(bench, begin(bench, GOOD, options=PATIENCE))
    assert (state, reason) == ("succeeded", "reported to the fleet; models that serve as before: 1")
    expect_good_agent(lab, bench)
    (slot,) = [one for one in bench.fleet.device(bench.name)["reported"]["slots"] if one["release"] == "shoal-agent"]
    assert slot["current"]["version"] == GOOD


@pytest.mark.parametrize(
    ("version", "reason"),
    [(CRASHES, "started 3 times, and never kept"), (IS_MUTE, "the fleet didn't|ran for .* s of at most")],
)
def test_a_board_goes_back_from_a_bad_agent(
    lab: BoardStrategy, bench: Bench, releases: None, version: int, reason: str
) -> None:
    have_good_agent(lab, bench)
    state, found = end(bench, begin(bench, version, options=HASTE))
    assert state == "failed"
    assert re.search(reason, found), found
    expect_good_agent(lab, bench)


def test_power_cuts_while_the_agent_is_replaced_leave_one_that_reports(
    lab: BoardStrategy, bench: Bench, releases: None, pytestconfig: pytest.Config
) -> None:
    have_good_agent(lab, bench)
    moments = random.Random(pytestconfig.getoption("cut_seed"))
    for number in range(pytestconfig.getoption("cuts")):
        other = GOOD_TOO if running_tree(lab.board).startswith(f"{GOOD}-") else GOOD
        rollout = begin(bench, other, options=PATIENCE)
        at_s = moments.uniform(0, LONGEST_S)
        print(f"cut {number + 1} at {at_s:.1f} s")
        lab.cut_power(after_s=at_s)
        lab.be_up()
        assert end(bench, rollout)[0] in ("succeeded", "failed")
        expect_good_agent(lab, bench)


def have_good_agent(lab: BoardStrategy, bench: Bench) -> None:
    """Where a test runs alone."""
    if not runs_good_agent(lab.be_up()):
        assert end(bench, begin(bench, GOOD, options=PATIENCE))[0] == "succeeded"
