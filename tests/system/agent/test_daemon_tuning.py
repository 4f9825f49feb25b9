"""When does the daemon start a tuning child, when does it end one, and what becomes of its verdict?

The real daemon and a real broker; updater, front and tuning child are fakes that speak the real channel.
"""

import json
import os
from pathlib import Path

from shoal_agent.board import read_kind
from shoal_agent.cpu_budget import budget, read_processors
from shoal_agent.daemon.looked import LOOKED, MAX_DOWNS
from shoal_agent.tuned import FOLDER, SERVING
from shoal_wire.messages import Reported
from shoal_wire.tuning import Candidate

from tests.system.agent.board import MODEL, Board
from tests.system.agent.fake_tuning import CHOSEN, serve_by
from tests.system.agent.test_daemon import wait_committed, wait_serving
from tests.system.fleet.broker_site import wait_until


def starts(board: Board) -> list[int]:
    """Process ids of the tuning children that there were."""
    path = board.state / "tuning-starts"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def engine(report: Reported) -> str:
    return report.slots[0].engine if report.slots else ""


def install(board: Board, *, version: int) -> None:
    """Have a release committed; the daemon must run."""
    board.fleet.assign(board.assignment(version), generation=version)
    wait_serving(board, version=version)
    board.add_items(10, prefix=f"for-{version}")
    wait_committed(board, version=version, generation=version)


def wait_for_memory_rows(board: Board) -> None:
    """Let some seconds pass in which the daemon would have begun, as it looks twice a second."""
    before = len(board.fleet.processes())
    wait_until(lambda: len(board.fleet.processes()) > before, what="memory rows of a new start")


def looked(board: Board) -> dict[str, object]:
    """What the daemon keeps about the slot's tunings."""
    kept: dict[str, object] = json.loads((board.state / FOLDER / LOOKED).read_bytes())["slots"][MODEL]
    return kept


def test_tunes_once_after_an_install_serves_by_it_and_tells_the_fleet(board: Board) -> None:
    board.configure(tunes=True)
    board.trust_fleet()
    with board.daemon():
        install(board, version=1)
        wait_until(lambda: bool(board.fleet.tuned()), what="the fleet hears of the verdict")
        wait_until(lambda: board.fleet.last_report(lambda report: engine(report) == CHOSEN.engine), what="it serves so")
        (row,) = board.fleet.tuned()
        assert (row.reference.version, row.choice, row.is_confirmed) == (1, CHOSEN, False)
        wait_until(lambda: bool(looked(board)["is_done"]), what="the daemon keeps that it is done")
    with board.daemon():
        wait_for_memory_rows(board)
        wait_until(lambda: board.fleet.last_report(lambda report: engine(report) == CHOSEN.engine), what="still so")
        assert len(starts(board)) == 1
        install(board, version=2)
        wait_until(lambda: len(board.fleet.tuned()) == 2, what="the new release is tuned too")
    assert not board.fleet.events("tuning-failed")


def test_reports_what_kind_of_board_it_is(board: Board) -> None:
    with board.daemon():
        wait_until(lambda: bool(board.fleet.reports), what="a first report")
    assert board.fleet.reports[-1].kind == read_kind(processors=budget(read_processors(), configured=0))


def test_an_update_ends_a_tuning_which_then_does_not_count(board: Board) -> None:
    board.configure(tunes=True)
    board.trust_fleet()
    with board.daemon(tuning="endless"):
        install(board, version=1)
        wait_until(lambda: len(starts(board)) == 1, what="a tuning began")
        install(board, version=2)
        wait_until(lambda: len(starts(board)) == 2, what="the new release's began")
        first, second = starts(board)
        assert not Path(f"/proc/{first}").exists() and Path(f"/proc/{second}").exists()
        wait_until(lambda: looked(board)["attempts"] == 1, what="the second is the first that counts")
    assert not board.fleet.events("tuning-failed")
    assert not Path(f"/proc/{second}").exists()
    assert not json.loads((board.state / FOLDER / LOOKED).read_bytes())["slots"]


def test_one_that_dies_or_finds_nothing_is_told_and_not_tried_again_soon(board: Board) -> None:
    board.configure(tunes=True)
    board.trust_fleet()
    with board.daemon(tuning="dies"):
        install(board, version=1)
        wait_until(lambda: bool(board.fleet.events("tuning-failed")), what="the fleet hears of it")
    with board.daemon(tuning="finds-nothing"):
        wait_for_memory_rows(board)
        assert len(starts(board)) == 1
        install(board, version=2)
        wait_until(lambda: len(board.fleet.events("tuning-failed")) == 2, what="the fleet hears of the second")
    assert "fake: none is right" in board.fleet.events("tuning-failed")[-1].detail
    assert (looked(board)["is_done"], looked(board)["attempts"]) == (False, 1)

    (board.state / FOLDER / SERVING).write_bytes(b"{")
    with board.daemon():
        wait_for_memory_rows(board)
        wait_until(lambda: len(board.fleet.events("tuning-failed")) == 3, what="the fleet hears of the damage")
    assert len(starts(board)) == 2, "a damaged choice makes it forget how long to wait"


def test_a_tuning_during_which_the_board_went_down_counts_as_failed(board: Board) -> None:
    board.configure(tunes=True)
    board.trust_fleet()
    daemon = board.start(tuning="endless")
    install(board, version=1)
    wait_until(lambda: len(starts(board)) == 1, what="a tuning began")
    daemon.kill()
    daemon.communicate()
    with board.daemon():
        wait_for_memory_rows(board)
    assert len(starts(board)) == 1
    assert looked(board)["downs"] == 1

    path = board.state / FOLDER / LOOKED
    looks = json.loads(path.read_bytes())
    looks["slots"][MODEL] |= {"at": 0.0, "downs": MAX_DOWNS}
    path.write_text(json.dumps(looks))
    with board.daemon():
        wait_until(lambda: bool(board.fleet.events("tuning-failed")), what="the fleet hears that it is given up")
        install(board, version=2)
        wait_until(lambda: len(starts(board)) == 2, what="another release is tuned all the same")
    assert len(board.fleet.events("tuning-failed")) == 1
    assert "went down during 5 tunings" in board.fleet.events("tuning-failed")[0].detail


def test_files_of_tuning_that_cannot_be_read_or_written_stop_nothing_and_stay(board: Board) -> None:
    unreadable = [board.state / FOLDER / name for name in (SERVING, LOOKED)]
    for path in unreadable:
        path.mkdir(parents=True)
    board.configure(tunes=True)
    board.trust_fleet()
    with board.daemon():
        install(board, version=1)
        wait_until(lambda: len(board.fleet.events("tuning-failed")) == 2, what="the fleet hears of both")
    told = [event.detail for event in board.fleet.events("tuning-failed")]
    assert "serves as if nothing had been tuned" in told[0] and "can't be written down" in told[1]
    assert not starts(board)
    assert all(path.is_dir() for path in unreadable)


def test_looks_again_when_an_engine_is_replaced(board: Board) -> None:
    interpreter = board.state / "python"
    interpreter.write_text("")
    board.configure(tunes=True, more=f'[interpreters]\nonnxruntime = "{interpreter}"\n')
    board.trust_fleet()
    with board.daemon():
        install(board, version=1)
        wait_until(lambda: len(board.fleet.tuned()) == 1, what="the release is tuned")
        os.utime(interpreter, ns=(1, 1))
        wait_until(lambda: len(board.fleet.tuned()) == 2, what="it is tuned again")


def test_follows_what_a_person_tuned_and_leaves_a_damaged_choice(board: Board) -> None:
    board.trust_fleet()
    with board.daemon():
        install(board, version=1)
        serve_by(board.state, Candidate(variant="only", engine="by-hand", threads=1), model=MODEL)
        wait_until(lambda: board.fleet.last_report(lambda report: engine(report) == "by-hand"), what="it serves so")
        (board.state / FOLDER / "serving.json").write_bytes(b"{")
        wait_until(lambda: board.fleet.last_report(lambda report: engine(report) == "fake"), what="as before")
        wait_until(lambda: bool(board.fleet.events("tuning-failed")), what="the fleet hears of it")
    assert not starts(board)
