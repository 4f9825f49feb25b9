"""Does a board get what tuning can choose from, and never pay for it with an update?"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from shoal_agent.updater.planning import RESERVE_BYTES
from shoal_agent.updater.spares import STARTS
from shoal_wire.update import UpdateState

from tests.faults.updater.board import KILLED, BoardFolder, Site
from tests.faults.updater.killing_files import JournalKill, WriteKill
from tests.faults.updater.publisher import Release, sealed_path, tamper
from tests.faults.updater.scripted_daemon import ScriptedDaemon


class Tunable(NamedTuple):
    """A board on which a release with two variants is desired, and where that is served."""

    board: BoardFolder
    site: Site
    third: Release

    @property
    def spare(self) -> str:
        """Digest of the sealed file that only the second variant has."""
        return self.third.manifest.file("spare").ciphertext_sha256


@pytest.fixture
def tunable(
    make_site: Callable[[str], Site], make_board: Callable[[Path, Site], BoardFolder], tmp_path: Path
) -> Tunable:
    site = make_site(tmp_path.name)
    third = site.publisher.release(3, weights=b"first weights" * 300, spare=b"other weights" * 300)
    site.publisher.publish()
    board = make_board(tmp_path / "state", site)
    board.all_variants = True
    board.desire(site.publisher.desire(site.publisher.assign(third), generation=1))
    return Tunable(board, site, third)


def expect_committed(tunable: Tunable, *, generation: int = 1, without: str = "") -> None:
    assert tunable.board.ended() == (UpdateState.COMMITTED, generation), tunable.board.journal().reason
    assert tunable.board.store() >= tunable.third.store_names - {without}
    assert without not in tunable.board.store()


def test_other_variants_are_fetched_and_stay_while_a_slot_holds_the_release(tunable: Tunable) -> None:
    board, site = tunable.board, tunable.site
    board.settle(ScriptedDaemon(board.state))
    expect_committed(tunable)
    current = board.slot().current
    assert current is not None
    assert {grant.ciphertext_sha256 for grant in current.grants} == tunable.third.store_names - {
        tunable.third.manifest_sha256
    }
    board.desire(site.publisher.desire(site.publisher.assign(site.second), generation=2))
    board.settle(ScriptedDaemon(board.state))
    expect_committed(tunable, generation=2)


def test_weights_that_another_release_has_are_not_fetched_again(tunable: Tunable) -> None:
    board, site = tunable.board, tunable.site
    board.settle(ScriptedDaemon(board.state))
    fourth = site.publisher.release(4, weights=b"other weights" * 300, spare=b"first weights" * 300)
    site.publisher.publish()
    board.desire(site.publisher.desire(site.publisher.assign(fourth), generation=2))
    board.settle(ScriptedDaemon(board.state))
    expect_committed(tunable, generation=2)
    assert board.journal().fetched_bytes == 0


def test_disk_without_room_for_all_gets_the_variant_that_serves(tunable: Tunable) -> None:
    room = sum(tunable.third.manifest.file(name).ciphertext_bytes for name in ("model", "case"))
    ended = tunable.board.start(ScriptedDaemon(tunable.board.state), free_bytes=RESERVE_BYTES + room)
    assert ended.code == 0, ended.error
    expect_committed(tunable, without=tunable.spare)


def test_variant_that_comes_damaged_is_left_out(tunable: Tunable) -> None:
    tamper(tunable.site.publisher.folder / sealed_path(tunable.spare), at=2000)
    daemon = ScriptedDaemon(tunable.board.state)
    tunable.board.settle(daemon)
    expect_committed(tunable, without=tunable.spare)
    assert [name for name, _ in daemon.events()] == ["variant-left-out", "update-committed"]


def test_variant_that_the_fleet_does_not_have_holds_nothing_up(tunable: Tunable) -> None:
    (tunable.site.publisher.folder / sealed_path(tunable.spare)).unlink()
    daemon = ScriptedDaemon(tunable.board.state)
    tunable.board.settle(daemon)
    expect_committed(tunable, without=tunable.spare)
    assert [name for name, _ in daemon.events()] == ["variant-left-out", "update-committed"]


def test_starts_that_die_of_a_variant_end_with_an_update_without_it(tunable: Tunable) -> None:
    """The updater is killed each time before it writes down that it has all files."""
    board = tunable.board
    kill = JournalKill("before", to_state=UpdateState.VERIFYING, from_state=UpdateState.FETCHING)
    (tunable.site.publisher.folder / sealed_path(tunable.spare)).unlink()
    for _ in range(STARTS):
        assert board.start(ScriptedDaemon(board.state), kill=kill).code == KILLED
    daemon = ScriptedDaemon(board.state)
    board.settle(daemon)
    expect_committed(tunable, without=tunable.spare)
    assert ("variant-left-out", f"{STARTS} starts ended before all files had come") in daemon.events()


@pytest.mark.parametrize("is_there", [True, False], ids=["served", "missing"])
def test_kill_at_every_third_durable_write(tunable: Tunable, is_there: bool) -> None:
    if not is_there:
        (tunable.site.publisher.folder / sealed_path(tunable.spare)).unlink()
    daemon = ScriptedDaemon(tunable.board.state)
    for number in itertools.count(2, 3):
        if tunable.board.start(daemon, kill=WriteKill("during", number)).code != KILLED:
            break
    tunable.board.settle(daemon)
    # Starts that died while it was fetched count against a variant that the release can do without.
    is_left_out = "variant-left-out" in [name for name, _ in daemon.events()]
    assert is_left_out or is_there
    expect_committed(tunable, without=tunable.spare if is_left_out else "")
