"""What does the device tell its fleet about what it runs, and how does the fleet tell a newer report from an older one?

The whole of it, signed, retained, with a counter that is on the disk before a report with it is sent.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from shoal_wire import envelope
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.encoding import Counter, decode_struct, encode
from shoal_wire.envelope import Signer
from shoal_wire.errors import WireError
from shoal_wire.messages import Ack, AgentReport, Reported, SlotReport, TrustReport, UpdateReport
from shoal_wire.tuning import BoardKind

from shoal_agent.daemon.assignment import Order
from shoal_agent.files import Files
from shoal_agent.front_messages import Serving
from shoal_agent.own_trees import tree_of
from shoal_agent.slots import Journal, Slot, Slots
from shoal_agent.state import REPORT

PAUSE_S = 0.1
"""Between two reports: changes in between are one report."""

_LOG = logging.getLogger(__name__)


class ReportState(msgspec.Struct, frozen=True, kw_only=True):
    """Content of report.json: the last counter, and the order of the newest desired document that was accepted."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    counter: Counter
    epoch: Counter = 0
    generation: Counter = 0


class Running(NamedTuple):
    """What the device holds and does at this moment."""

    slots: Slots
    journal: Journal | None
    serving: Mapping[str, Serving]
    kind: BoardKind
    own: Slot
    """That of the agent itself."""
    agent: AgentReport
    tree: str
    """Of the agent that runs; empty for a package's own."""
    trust: TrustReport | None = None


class Origin(NamedTuple):
    """What is the same in every report of one start of the daemon."""

    device: str
    profile: str
    agent_version: str
    stream: str


class Reporter:
    """Publishes a report at each change."""

    def __init__(
        self,
        files: Files,
        state: Path,
        *,
        origin: Origin,
        signer: Signer,
        running: Callable[[], Running],
        publish: Callable[[bytes], bool],
    ) -> None:
        """`publish` sends a signed report, retained; False when there is no connection: a new one brings `touch`."""
        self._files = files
        self._path = state / REPORT
        self._origin = origin
        self._signer = signer
        self._running = running
        self._publish = publish
        self._state = load_report_state(files, self._path, now=time.time())
        self._changed = asyncio.Event()
        self._first = self._state.counter + 1
        self._acknowledged = 0

    @property
    def accepted(self) -> Order | None:
        """Order of the newest desired document that was accepted; None before the first."""
        order = (self._state.epoch, self._state.generation)
        return order if order > (0, 0) else None

    def accept(self, order: Order) -> None:
        """A desired document of that order was accepted and is on the disk."""
        self._state = msgspec.structs.replace(self._state, epoch=order[0], generation=order[1])
        self._changed.set()

    @property
    def is_acknowledged(self) -> bool:
        """Whether the fleet has committed a report of this start."""
        return self._acknowledged >= self._first

    def note_acknowledged(self, ack: Ack) -> None:
        """The fleet has committed a report, and signed that it has."""
        if ack.stream == self._origin.stream:
            self._acknowledged = max(self._acknowledged, ack.reported)

    def touch(self) -> None:
        """Something changed, or there is a new connection."""
        self._changed.set()

    async def serve(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._state = msgspec.structs.replace(self._state, counter=self._state.counter + 1)
            state = self._state
            await asyncio.to_thread(self._files.write, self._path, encode(state))
            report = compose(self._running(), origin=self._origin, state=state, now=time.time())
            if not self._publish(envelope.seal(encode(report), envelope.REPORTED, self._signer)):
                _LOG.debug("report %d waits for a connection", state.counter)
            await asyncio.sleep(PAUSE_S)


def load_report_state(files: Files, path: Path, *, now: float) -> ReportState:
    """The content of report.json.

    Without a readable file the counter goes on from the clock, in seconds: above every counter that was used, because
    reports are rarer than one a second.
    """
    try:
        return decode_struct(files.read(path), ReportState, what=REPORT)
    except FileNotFoundError:
        pass
    except WireError as error:
        _LOG.error("%s: %s; its counter goes on from the clock", path, error)
    return ReportState(counter=int(now))


def compose(running: Running, *, origin: Origin, state: ReportState, now: float) -> Reported:
    """The report of this moment."""
    return Reported(
        device=origin.device,
        counter=state.counter,
        stream=origin.stream,
        at=now,
        agent_version=origin.agent_version,
        profile=origin.profile,
        epoch=state.epoch,
        generation=state.generation,
        slots=(
            *(_slot_report(name, running) for name in sorted(running.slots.slots)),
            *([_agent_slot_report(running)] if running.own != Slot() else []),
        ),
        update=_update_report(running.journal),
        kind=running.kind,
        trust=running.trust,
        agent=running.agent,
    )


def _slot_report(name: str, running: Running) -> SlotReport:
    slot = running.slots.slots[name]
    serving = running.serving.get(name)
    return SlotReport(
        release=name,
        current=slot.current.reference if slot.current else None,
        previous=slot.previous.reference if slot.previous else None,
        serving=serving.reference if serving else None,
        variant=serving.variant if serving else "",
        engine=serving.engine if serving else "",
        engine_version=serving.engine_version if serving else "",
        placement=serving.placement if serving else (),
        refused=tuple(generation for _, generation in slot.refused),
    )


def _agent_slot_report(running: Running) -> SlotReport:
    """The agent's own releases, as if they were a model's; what runs is what serves."""
    slot, tree = running.own, running.tree
    held = [one.reference for one in (slot.current, slot.previous) if one]
    return SlotReport(
        release=AGENT_RELEASE,
        current=slot.current.reference if slot.current else None,
        previous=slot.previous.reference if slot.previous else None,
        serving=next((reference for reference in held if tree_of(reference) == tree), None),
        variant=slot.current.variant if slot.current else "",
        refused=tuple(generation for _, generation in slot.refused),
    )


def _update_report(journal: Journal | None) -> UpdateReport | None:
    if journal is None:
        return None
    return UpdateReport(
        epoch=journal.epoch,
        generation=journal.generation,
        target=journal.target,
        state=journal.state,
        reason=journal.reason,
        fetched_bytes=journal.fetched_bytes,
    )
