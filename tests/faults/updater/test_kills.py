"""Is an update that is killed anywhere, and started again, led to the same end?

For every row of the transition table the updater is killed before and after the journal's write of that row. What
leads to the row, and where the update must end, is written down here by hand.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import msgspec
import pytest
from shoal_agent.updater.transitions import (
    BOUNDS,
    CHECKING,
    COMMITTED,
    COMMITTING,
    DONE,
    EXHAUSTED,
    FAILED,
    FALLING_BACK,
    FELL_BACK,
    FETCHING,
    NEWER,
    PLANNING,
    PROBATION,
    REFUSED,
    REFUSING,
    SWITCHING,
    TRANSITIONS,
    VERIFYING,
    Outcome,
)
from shoal_wire.update import UpdateState

from tests.faults.updater.board import KILLED, BoardFolder, Site
from tests.faults.updater.killing_files import Damage, JournalKill, Moment, WriteKill
from tests.faults.updater.scripted_daemon import ScriptedDaemon

Row = tuple[UpdateState, Outcome]


@dataclass(frozen=True)
class World:
    """What is wrong with release 2, and how its update must end."""

    end: UpdateState
    versions: tuple[int | None, int | None]
    """Of current and previous."""
    generation: int = 2
    fails_golden: bool = False
    fails_to_serve: bool = False
    latency_ms: float = 50.0
    is_foreign: bool = False
    """The assignment names a manifest that was never signed."""
    lacks_file: bool = False
    """The fleet serves other bytes than it signed."""
    disk_forgets: bool = False
    """A file changes on the disk after it was fetched."""

    def daemon(self, board: BoardFolder, site: Site) -> ScriptedDaemon:
        return ScriptedDaemon(
            board.state,
            suspect=site.second.manifest_sha256,
            fails_golden=self.fails_golden,
            fails_to_serve=self.fails_to_serve,
            latency_ms=self.latency_ms,
        )

    def damage(self, board: BoardFolder, site: Site) -> Damage | None:
        if not self.disk_forgets:
            return None
        path = board.state / "store" / site.second.manifest.file("model").ciphertext_sha256
        return Damage(VERIFYING, str(path))


GOOD = World(COMMITTED, (2, 1))
GOLDEN_FAILS = World(REFUSED, (1, None), fails_golden=True)
SLOW = World(FELL_BACK, (1, None), latency_ms=500.0)
GIVEN_UP = World(REFUSED, (1, None))
GIVEN_BACK = World(FELL_BACK, (1, None))
SUPERSEDED_THEN_GOOD = World(COMMITTED, (2, 1), generation=3)

WORLDS: dict[Row, World] = {
    (PLANNING, DONE): GOOD,
    (PLANNING, FAILED): World(REFUSED, (1, None), is_foreign=True),
    (PLANNING, EXHAUSTED): GIVEN_UP,
    (PLANNING, NEWER): SUPERSEDED_THEN_GOOD,
    (FETCHING, DONE): GOOD,
    (FETCHING, FAILED): World(REFUSED, (1, None), lacks_file=True),
    (FETCHING, EXHAUSTED): GIVEN_UP,
    (FETCHING, NEWER): SUPERSEDED_THEN_GOOD,
    (VERIFYING, DONE): GOOD,
    (VERIFYING, FAILED): World(REFUSED, (1, None), disk_forgets=True),
    (VERIFYING, EXHAUSTED): GIVEN_UP,
    (VERIFYING, NEWER): SUPERSEDED_THEN_GOOD,
    (CHECKING, DONE): GOOD,
    (CHECKING, FAILED): GOLDEN_FAILS,
    (CHECKING, EXHAUSTED): GIVEN_UP,
    (CHECKING, NEWER): SUPERSEDED_THEN_GOOD,
    (SWITCHING, DONE): GOOD,
    (SWITCHING, FAILED): World(FELL_BACK, (1, None), fails_to_serve=True),
    (SWITCHING, EXHAUSTED): GIVEN_BACK,
    (PROBATION, DONE): GOOD,
    (PROBATION, FAILED): SLOW,
    (PROBATION, EXHAUSTED): GIVEN_BACK,
    (COMMITTING, DONE): GOOD,
    (COMMITTING, EXHAUSTED): GOOD,
    (FALLING_BACK, DONE): SLOW,
    (FALLING_BACK, EXHAUSTED): SLOW,
    (REFUSING, DONE): GOLDEN_FAILS,
    (REFUSING, EXHAUSTED): GOLDEN_FAILS,
}

SAME_IN_ALL_WORLDS = {COMMITTED, PLANNING, FETCHING, VERIFYING}
"""States that don't know yet what is wrong with release 2; COMMITTED is that of release 1."""

ROWS = [pytest.param(row, id=f"{row[0].value}-{row[1].value}") for row in TRANSITIONS]
"""Every row of the table: one that `WORLDS` doesn't know fails."""
MOMENTS = get_args(Moment)
BEFORE_AND_AFTER = ["before", "after", pytest.param("during", marks=pytest.mark.long)]


@pytest.mark.parametrize("moment", BEFORE_AND_AFTER)
@pytest.mark.parametrize("row", ROWS)
def test_kill_at_the_journal_write_of_a_row(
    row: Row, moment: Moment, board: BoardFolder, site: Site, damaged_mirror: str
) -> None:
    world = WORLDS[row]
    state, _ = row
    if world.lacks_file:
        board.use_server(damaged_mirror)
    if world.is_foreign:
        assignment = msgspec.structs.replace(site.publisher.assign(site.second), manifest_sha256="f" * 64)
        board.desire(site.publisher.desire(assignment, generation=2))
    daemon, damage = world.daemon(board, site), world.damage(board, site)
    lead_to(board, site, row, daemon)

    kill = JournalKill(moment, to_state=TRANSITIONS[row], from_state=state)
    ended = board.start(daemon, kill=kill, damage=damage)
    assert ended.code == KILLED, ended.error
    board.settle(daemon, damage=damage)

    expect(board, world)


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_at_the_first_write_of_the_journal(moment: Moment, board: BoardFolder, site: Site) -> None:
    daemon = ScriptedDaemon(board.state)

    assert board.start(daemon, kill=JournalKill(moment, PLANNING)).code == KILLED
    board.settle(daemon)

    expect(board, GOOD)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("world", [GOOD, SLOW, GOLDEN_FAILS], ids=["good", "slow", "wrong"])
def test_kill_at_every_third_durable_write(world: World, moment: Moment, board: BoardFolder, site: Site) -> None:
    """Never twice at the same: the next start is killed three writes later, until one is through."""
    daemon = world.daemon(board, site)
    for number in itertools.count(2, 3):
        if board.start(daemon, kill=WriteKill(moment, number)).code != KILLED:
            break
    board.settle(daemon)

    expect(board, world)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("second_moment", ["during", "after"])
@pytest.mark.parametrize("first_moment", ["during", "after"])
@pytest.mark.parametrize("world", [GOOD, SLOW, GOLDEN_FAILS], ids=["good", "slow", "wrong"])
def test_two_kills_at_any_two_durable_writes(
    world: World, first_moment: Moment, second_moment: Moment, fresh_board: Callable[[], BoardFolder], site: Site
) -> None:
    """Before a write is after the one before it, as far as the disk knows."""
    for first in itertools.count():
        for second in itertools.count():
            board = fresh_board()
            daemon = world.daemon(board, site)
            if board.start(daemon, kill=WriteKill(first_moment, first)).code != KILLED:
                return
            if world is not GOOD and board.journal().state in SAME_IN_ALL_WORLDS:
                break
            is_through = board.start(daemon, kill=WriteKill(second_moment, second)).code != KILLED
            board.settle(daemon)
            expect(board, world)
            if is_through:
                break


def lead_to(board: BoardFolder, site: Site, row: Row, daemon: ScriptedDaemon) -> None:
    """Bring the board to where the next start takes the row, for rows that need starts before."""
    state, outcome = row
    starts = {EXHAUSTED: BOUNDS[state].attempts, NEWER: 1}.get(outcome, 0)
    for _ in range(starts):
        ended = board.start(daemon, kill=JournalKill("after", to_state=state))
        assert ended.code == KILLED, ended.error
    if outcome is NEWER:
        board.desire(site.publisher.desire(site.publisher.assign(site.second), generation=3))


def expect(board: BoardFolder, world: World) -> None:
    assert board.ended() == (world.end, world.generation), board.journal().reason
    assert board.versions() == world.versions
    refused = {REFUSED, FELL_BACK}
    assert board.slot().refused == (((1, world.generation),) if world.end in refused else ())
