"""Which update comes by at each row of the transition table, and where must it end?

Written down by hand; the table itself is the updater's.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from shoal_agent.slots import STORE
from shoal_agent.updater.transitions import (
    CHECKING,
    COMMITTED,
    COMMITTING,
    DONE,
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
    VERIFYING,
    Outcome,
)
from shoal_wire.update import UpdateState

from tests.faults.system.processes import wait_for
from tests.faults.system.releases import DAMAGED, GOOD, SLOW, UNFIT
from tests.faults.system.stage import Stage

Row = tuple[UpdateState, Outcome]


@contextmanager
def spoil_in_fleet(stage: Stage) -> Iterator[None]:
    """The fleet gives other bytes than were signed, until the end."""
    missing = [name for name in _granted(stage) if not (stage.board.state / STORE / name).exists()]
    paths = [stage.site.state / "sealed" / name[:2] / name for name in missing]
    _spoil(paths)
    yield
    _spoil(paths)


@contextmanager
def spoil_on_board(stage: Stage) -> Iterator[None]:
    """The board's disk gives back other bytes of the new release than were written."""
    slot = stage.board.slot()
    held = {grant.ciphertext_sha256 for one in (slot.current, slot.previous) if one for grant in one.grants}
    _spoil([stage.board.state / STORE / name for name in _granted(stage) if name not in held])
    yield


@contextmanager
def desire_another(stage: Stage) -> Iterator[None]:
    """A newer document that names another good release is on the board."""
    journal, slot = stage.board.journal(), stage.board.slot()
    assert journal is not None and slot.current is not None
    others = set(GOOD) - {journal.assignment.version, slot.current.reference.version}
    before = (stage.board.state / "desired.dsse").read_bytes()
    stage.site.roll_out(stage.board, others.pop())
    wait_for(lambda: (stage.board.state / "desired.dsse").read_bytes() != before, what="the newer document came")
    yield


Preparation = Callable[[Stage], AbstractContextManager[None]]


@dataclass(frozen=True)
class Story:
    """An update and its end. One without a version is to a good release of which the board lacks a file."""

    end: UpdateState
    version: int | None = None
    prepare: Preparation = lambda stage: nullcontext()
    """Done when the update enters the row's state."""


GOOD_UPDATE = Story(COMMITTED)
SLOW_UPDATE = Story(FELL_BACK, SLOW)
DAMAGED_UPDATE = Story(REFUSED, DAMAGED)
OVERTAKEN_UPDATE = Story(UpdateState.SUPERSEDED, prepare=desire_another)

STORIES: dict[Row, Story] = {
    (PLANNING, DONE): GOOD_UPDATE,
    (PLANNING, FAILED): Story(REFUSED, UNFIT),
    (PLANNING, NEWER): OVERTAKEN_UPDATE,
    (FETCHING, DONE): GOOD_UPDATE,
    (FETCHING, FAILED): Story(REFUSED, prepare=spoil_in_fleet),
    (FETCHING, NEWER): OVERTAKEN_UPDATE,
    (VERIFYING, DONE): GOOD_UPDATE,
    (VERIFYING, FAILED): Story(REFUSED, prepare=spoil_on_board),
    (VERIFYING, NEWER): OVERTAKEN_UPDATE,
    (CHECKING, DONE): GOOD_UPDATE,
    (CHECKING, FAILED): DAMAGED_UPDATE,
    (CHECKING, NEWER): OVERTAKEN_UPDATE,
    (SWITCHING, DONE): GOOD_UPDATE,
    (SWITCHING, FAILED): Story(FELL_BACK, prepare=spoil_on_board),
    (PROBATION, DONE): GOOD_UPDATE,
    (PROBATION, FAILED): SLOW_UPDATE,
    (COMMITTING, DONE): GOOD_UPDATE,
    (FALLING_BACK, DONE): SLOW_UPDATE,
    (REFUSING, DONE): DAMAGED_UPDATE,
}
"""Rows for EXHAUSTED are led to by killing the daemon too often."""

ATTEMPTS: dict[UpdateState, str] = {
    COMMITTED: "succeeded",
    FELL_BACK: "failed",
    REFUSED: "failed",
    UpdateState.SUPERSEDED: "aborted",
}
"""What the fleet says of the board at the end of the rollout."""


def _granted(stage: Stage) -> list[str]:
    """Digests of the sealed files of the release in update."""
    journal = stage.board.journal()
    assert journal is not None
    return [grant.ciphertext_sha256 for grant in journal.assignment.grants]


def _spoil(paths: list[Path]) -> None:
    """Turn a bit, or turn it back."""
    assert paths
    for path in paths:
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)
