"""Is each row stored exactly once, over a network that repeats, reorders and loses, with a fleet that dies at times?"""

from typing import NamedTuple

import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import service
from shoal_fleet.telemetry.models import EventRow
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, Board, close_database, make_database
from tests.unit.fleet.telemetry.rows import event


class PowerCut(Exception):
    """The fleet dies before its transaction is on disk."""


class Send(NamedTuple):
    """The device sends rows, from the first that isn't acknowledged or a little further on."""

    skip: int
    rows: int


class Deliver(NamedTuple):
    """One of the messages under way arrives."""

    which: int
    stays: bool
    """It will arrive once more."""
    dies: bool
    """The fleet dies in its transaction."""
    loses_ack: bool
    """It dies after its transaction, or the network loses the acknowledgement."""


class Network:
    """A device with an outbox, a fleet with a database, and what is under way between them."""

    def __init__(self, sessions: Sessions, *, rows: int) -> None:
        self.board = Board("yard")
        self.board.enrol(sessions)
        self.sessions = sessions
        self.rows = rows
        self.acknowledged = 0
        self.under_way: list[tuple[int, int]] = []

    def send(self, step: Send) -> None:
        first = self.acknowledged + 1 + step.skip
        if first <= self.rows:
            self.under_way.append((first, min(first + step.rows - 1, self.rows)))

    def deliver(self, step: Deliver) -> None:
        if not self.under_way:
            return
        index = step.which % len(self.under_way)
        first, last = self.under_way[index] if step.stays else self.under_way.pop(index)
        if step.dies:
            with pytest.raises(PowerCut):
                self.commit(first, last, dies=True)
        else:
            sequence = self.commit(first, last, dies=False)
            self.acknowledged = self.acknowledged if step.loses_ack else max(self.acknowledged, sequence)

    def commit(self, first: int, last: int, *, dies: bool) -> int:
        rows = [event(f"row-{number}") for number in range(first, last + 1)]
        with self.sessions() as session:
            if dies:
                sqlalchemy.event.listen(session, "before_commit", _cut)
            return service.commit_batch(session, self.board.plain_batch(first=first, rows=rows), now=NOW).sequence

    def drain(self) -> None:
        while self.acknowledged < self.rows:
            first = self.acknowledged + 1
            self.acknowledged = self.commit(first, min(first + 3, self.rows), dies=False)


def _cut(_session: object) -> None:
    raise PowerCut


steps = st.lists(
    st.builds(Send, skip=st.integers(0, 5), rows=st.integers(1, 6))
    | st.builds(Deliver, which=st.integers(0, 9), stays=st.booleans(), dies=st.booleans(), loses_ack=st.booleans()),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 20), steps=steps)
def test_any_interleaving_ends_with_each_row_exactly_once(rows: int, steps: list[Send | Deliver]) -> None:
    sessions = make_database()
    network = Network(sessions, rows=rows)
    for step in steps:
        if isinstance(step, Send):
            network.send(step)
        else:
            network.deliver(step)
    network.drain()
    with sessions() as session:
        stored = list(session.scalars(select(EventRow.name).order_by(EventRow.id)))
    close_database(sessions)
    assert stored == [f"row-{number}" for number in range(1, rows + 1)]
