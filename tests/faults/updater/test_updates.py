"""Does an update that nobody disturbs end as it should?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shoal_wire.update import UpdateState

from tests.faults.updater.board import BoardFolder, Site, expect_store
from tests.faults.updater.publisher import tamper
from tests.faults.updater.scripted_daemon import ScriptedDaemon


def test_update_is_committed_and_keeps_the_previous_release(board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state)

    board.settle(daemon)

    assert board.ended() == (UpdateState.COMMITTED, 2)
    assert board.versions() == (2, 1)
    assert board.store() == expect_store(site.first, site.second)
    current = board.slot().current
    assert current is not None and current.p95_ms is not None and abs(current.p95_ms - 50) <= 0.5
    assert {"type": "done", "state": "committed"} in daemon.heard


@pytest.mark.parametrize("trouble", [{}, {"latency_ms": 500.0}, {"fails_golden": True}, {"fails_to_serve": True}])
def test_nothing_is_left_over_when_the_updater_ends(trouble: dict[str, Any], board: BoardFolder, site: Site) -> None:
    (board.state / "tuf" / "cache" / "tmpx1y2z3").write_bytes(b"python-tuf was killed while it wrote")
    (board.state / "store" / ("e" * 64)).write_bytes(b"of a release that nobody has any more")

    ended = board.start(ScriptedDaemon(board.state, suspect=site.second.manifest_sha256, **trouble))

    assert ended.code == 0, ended.error
    board.check_tidy()


def test_only_what_the_board_lacks_is_fetched(board: BoardFolder, site: Site) -> None:
    board.settle(ScriptedDaemon(board.state))

    assert board.journal().fetched_bytes == site.second.manifest.file("model").ciphertext_bytes


def test_first_release_is_committed_without_a_previous_one(
    make_board: Callable[[Path, Site], BoardFolder], tmp_path: Path, site: Site
) -> None:
    board = make_board(tmp_path / "state", site)
    board.desire(site.publisher.desire(site.publisher.assign(site.first), generation=1))

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 1)
    assert board.versions() == (1, None)


def test_failed_first_release_leaves_the_slot_empty(
    make_board: Callable[[Path, Site], BoardFolder], tmp_path: Path, site: Site
) -> None:
    board = make_board(tmp_path / "state", site)
    board.desire(site.publisher.desire(site.publisher.assign(site.first), generation=1))

    board.settle(ScriptedDaemon(board.state, suspect=site.first.manifest_sha256, fails_to_serve=True))

    assert board.ended() == (UpdateState.FELL_BACK, 1)
    assert board.versions() == (None, None)


def test_release_held_as_previous_is_an_ordinary_update_that_fetches_nothing(board: BoardFolder, site: Site) -> None:
    board.settle(ScriptedDaemon(board.state))
    board.desire(site.publisher.desire(site.publisher.assign(site.first), generation=3))

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 3)
    assert board.versions() == (1, 2)
    assert board.journal().fetched_bytes == 0


def test_slow_release_falls_back_and_says_why(board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state, suspect=site.second.manifest_sha256, latency_ms=500.0)

    board.settle(daemon)

    assert board.ended() == (UpdateState.FELL_BACK, 2)
    assert board.versions() == (1, None)
    assert board.slot().refused == ((1, 2),)
    reason = board.journal().reason
    assert "on 20 answers, limit 100 ms (2.0 × the previous release)" in reason
    assert ("update-fell-back", reason) in daemon.events()


def test_golden_cases_refuse_a_release_and_say_why(board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state, suspect=site.second.manifest_sha256, fails_golden=True)

    board.settle(daemon)

    assert board.ended() == (UpdateState.REFUSED, 2)
    assert board.versions() == (1, None)
    assert board.journal().reason == "golden cases: case day: expected 1 car, found 7"
    assert board.store() == expect_store(site.first)


def test_release_that_was_refused_is_taken_in_a_new_generation(board: BoardFolder, site: Site) -> None:
    board.settle(ScriptedDaemon(board.state, suspect=site.second.manifest_sha256, fails_golden=True))
    board.desire(site.publisher.desire(site.publisher.assign(site.second), generation=3))

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 3)
    assert board.versions() == (2, 1)


def test_golden_cases_are_asked_for_again_while_nobody_can_tell(board: BoardFolder, site: Site) -> None:
    board.settle(ScriptedDaemon(board.state, check_unavailable=1))

    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_short_memory_puts_golden_cases_off_and_refuses_nothing(board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state, check_short=5)
    for _ in range(5):
        assert board.start(daemon).code == 75
        assert board.journal().state is UpdateState.CHECKING
        assert "needs 900 MB, 100 MB are available" in board.journal().reason
    board.settle(daemon)

    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_newer_document_ends_an_update_that_has_not_switched(board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state, supersedes_at_check=True)

    ended = board.start(daemon)

    assert ended.code == 0
    assert board.ended() == (UpdateState.SUPERSEDED, 2)
    assert board.versions() == (1, None)


def test_damaged_file_of_the_store_is_fetched_again(board: BoardFolder, site: Site) -> None:
    shared = site.first.manifest.file("case").ciphertext_sha256
    assert shared in site.second.store_names
    path = board.state / "store" / shared
    intact = path.read_bytes()
    tamper(path, at=200)

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 2)
    assert path.read_bytes() == intact


def test_unreadable_journal_is_kept_aside_and_what_serves_goes_on(board: BoardFolder, site: Site) -> None:
    (board.state / "update.json").write_bytes(b'{"epoch": 1, "gen')
    daemon = ScriptedDaemon(board.state)

    ended = board.start(daemon)

    assert ended.code == 0, ended.error
    assert board.ended() == (UpdateState.UNKNOWN, 2)
    assert board.versions() == (1, None)
    assert (board.state / "update.json.unreadable").read_bytes() == b'{"epoch": 1, "gen'
    assert [name for name, _ in daemon.events()] == ["update-unknown"]


def test_generation_of_an_unreadable_journal_is_not_tried_again_and_the_next_one_is(
    board: BoardFolder, site: Site
) -> None:
    (board.state / "update.json").write_bytes(b"\0" * 100)
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.UNKNOWN, 2)

    board.desire(site.publisher.desire(site.publisher.assign(site.second), generation=3))
    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 3)
