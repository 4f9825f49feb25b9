"""Which releases should serve, and how is the front kept at it?

What slots.json calls current is loaded, as tuning chose; a front that ends is started again and loads it anew; what
stands in for it is `wanted_slot`'s to say. Answers go to the outbox, and only then does the front hear that their items
are done.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal_wire.encoding import ModelName
from shoal_wire.errors import WireError
from shoal_wire.grant import RecipientKeys
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.messages import Event, ReleaseReference

from shoal_agent import updater_messages
from shoal_agent.configuration import Configuration
from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.grants import open_content_keys
from shoal_agent.daemon.protocol import ProtocolBroken, parse_front_message
from shoal_agent.daemon.proven import ProvenChoices
from shoal_agent.daemon.quarantine import Quarantine
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.secrets import Secrets
from shoal_agent.daemon.supervision import Child, ChildEnded, ChildHung, running
from shoal_agent.daemon.telemetry import Counted
from shoal_agent.daemon.wanted_slot import WantedSlot
from shoal_agent.errors import AgentError
from shoal_agent.front_messages import (
    QUARANTINE_DEATHS,
    Answers,
    Configure,
    Health,
    Load,
    LoadFailed,
    Notice,
    Serving,
    Source,
    Stopped,
    Stored,
    Unload,
    WorkerDied,
    as_frame,
)
from shoal_agent.slots import STORE, HeldRelease, Slots
from shoal_agent.tuned import ServingChoice

SILENCE_S = 30.0
"""A front that serves reports twice a second."""
LOAD_TIMEOUT_S = 300.0
DEATHS_IN_LOAD = 3
"""Fronts that may end over one load before it counts as failed."""
STEADY_S = 60.0
MAX_REASON = 2000
"""Characters of what a front says that are passed on."""

_LOG = logging.getLogger(__name__)


class Opened(NamedTuple):
    """What it takes to load a release, beside the release itself."""

    store: str
    content_keys: dict[str, str]


class Setting(NamedTuple):
    """What a front needs to know of this device. The keys open grants and stay here."""

    program: Sequence[str]
    state: Path
    device: str
    keys: RecipientKeys
    configuration: Configuration
    groups: Path | None
    secrets: Secrets

    def configure(self, *, sources: Sequence[Source], suspects: dict[str, int]) -> Configure:
        """The first message to a front. `suspects`: deaths by item, see `quarantine`."""
        configuration = self.configuration
        return Configure(
            device=self.device,
            sources=tuple(sources),
            threads=configuration.threads,
            slots=configuration.slots,
            interpreters=configuration.interpreters,
            engines=configuration.engines,
            groups=str(self.groups) if self.groups else "",
            suspects=suspects,
        )

    def sources(self) -> Iterator[Source | AgentError | WireError]:
        """Each source with its secrets in their places, or why that can't be had now."""
        for source in self.configuration.sources:
            try:
                yield Source(source.name, source.kind, self.secrets.fill(source.path), source.release)
            except (AgentError, WireError) as error:
                yield type(error)(f"source {source.name}: {error}")

    def open(self, held: HeldRelease) -> Opened:
        """Where a release is, and the keys that open it.

        Raises:
            Malformed, Unsupported, Untrusted: a grant doesn't open.
        """
        content_keys = open_content_keys(held, device=self.device, keys=self.keys)
        return Opened(str(self.state / STORE), content_keys)


class FrontKeeper:
    """Keeps a front serving what it should."""

    def __init__(
        self,
        setting: Setting,
        *,
        recorder: Recorder,
        quarantine: Quarantine,
        proven: ProvenChoices,
        on_change: Callable[[], None],
        on_end: Callable[[list[Counted]], None],
    ) -> None:
        """`on_change`: what serves has changed. `on_end`: a front ended, with its last counts."""
        self._setting = setting
        self._recorder = recorder
        self._quarantine = quarantine
        self._proven = proven
        self._on_change = on_change
        self._on_end = on_end
        self._slots: dict[str, WantedSlot] = {}
        self._child: Child | None = None
        self._choices: dict[ModelName, ServingChoice] = {}
        self._loaded: dict[str, dict[ModelName, ServingChoice]] = {}
        self._in_update: ModelName | None = None
        self._is_needed = asyncio.Event()
        self._storing: set[asyncio.Task[None]] = set()
        self._sources: tuple[Source, ...] = ()
        self._waiting: set[str] = set()

    @property
    def pid(self) -> int | None:
        """Of the front that runs."""
        return self._child.pid if self._child else None

    @property
    def serving(self) -> Mapping[str, Serving]:
        """What the front serves at this moment, by slot."""
        return {name: slot.serving for name, slot in self._slots.items() if slot.serving}

    def counted(self) -> list[Counted]:
        """Counts of what serves, since this front loaded it."""
        return [
            (slot.serving.reference, slot.health)
            for slot in self._slots.values()
            if slot.serving and slot.health and slot.health.manifest_sha256 == slot.serving.reference.manifest_sha256
        ]

    def want(self, slots: Slots, *, in_update: ModelName | None = None) -> None:
        """Serve what is current in these slots. `in_update` is the one whose update goes on; see `follow`."""
        self._in_update = in_update
        news = []
        for name in self._slots.keys() | slots.slots.keys():
            slot = self._slots.setdefault(name, WantedSlot())
            held = slots.slots.get(name)
            wanted, previous = (held.current, held.previous) if held else (None, None)
            if slot.want(wanted, previous=previous):
                news.append(name)
        self._end_update()
        for name in news:
            self._load(name)
        if any(slot.wanted for slot in self._slots.values()):
            self._is_needed.set()
        else:
            self._is_needed.clear()
            if self._child:
                self._child.terminate()
        self._load_anew()

    def renew_sources(self) -> None:
        """The device's secrets may have changed: a front whose sources are others now is started anew."""
        if self._child is not None and self._find_sources() != self._sources:
            self._child.terminate()

    def follow(self, choices: Mapping[ModelName, ServingChoice]) -> None:
        """Have releases serve by these choices of tuning from now on.

        What serves by others is loaded anew beside itself, or in its own place where the slot's swap policy or memory
        asks for that; if that fails, it serves on as it was. A slot whose update goes on waits for the end of it:
        probation judges a release as it was checked, and by counts that don't begin again.
        """
        self._choices = dict(choices)
        self._load_anew()

    def choices_for(self, held: HeldRelease) -> dict[ModelName, ServingChoice]:
        """By which a release is to be loaded: all but those that it must not serve by.

        In an update it is loaded by those with which it was checked, and the one before it as it was loaded last,
        whatever tuning chooses meanwhile.
        """
        is_in_update = held.reference.release == self._in_update
        return self._proven.trusted(held, self._served_by(held) if is_in_update else self._choices)

    def choices_to_check(self, held: HeldRelease) -> dict[ModelName, ServingChoice]:
        """With which a release is to be checked."""
        return self._proven.trusted(held, self._choices)

    def note_checked(self, held: HeldRelease, choices: Mapping[ModelName, ServingChoice]) -> None:
        """The release passed its golden cases with these choices."""
        self._proven.note_checked(held, choices)

    def distrust(self, held: HeldRelease, choices: Mapping[ModelName, ServingChoice]) -> None:
        """The release passes its golden cases only without these choices; others for its models count again."""
        self._proven.distrust(held, choices)

    async def switch(self, name: str) -> str | None:
        """Wait until what is wanted in the slot serves; None then, or why it can't."""
        slot = self._slots.setdefault(name, WantedSlot())
        if slot.is_serving:
            return None
        waiter = slot.wait()
        if not slot.is_loading:
            slot.failure, slot.deaths_in_load = "", 0
            self._load(name)
        return await waiter

    def settle(self, name: str) -> None:
        """Let the front forget what is neither current nor previous in the slot."""
        slot = self._slots.get(name)
        if slot and self._child:
            keep = [held.reference.manifest_sha256 for held in (slot.wanted, slot.previous) if held]
            self._child.send(as_frame(Unload(name, tuple(keep))))

    def health_news(self, name: str) -> updater_messages.Health | None:
        """The updater's message on how the slot's release does; None where nothing is wanted there."""
        slot = self._slots.get(name)
        if slot is None or slot.digest is None:
            return None
        health = slot.health if slot.health and slot.health.manifest_sha256 == slot.digest else None
        return updater_messages.Health(
            release=name,
            manifest_sha256=slot.digest,
            answers=health.answers if health else 0,
            errors=health.errors if health else 0,
            deaths=slot.deaths,
            histogram=health.histogram if health else Histogram(),
            serving=slot.is_serving,
        )

    def baseline(self, name: str) -> updater_messages.Baseline:
        """The updater's answer on how fast the release is that serves in the slot."""
        slot = self._slots.get(name)
        health = slot.health if slot and slot.serving else None
        p95_ms = Sketch.of(health.histogram).quantile(0.95) if health else None
        return updater_messages.Baseline(p95_ms, health.answers if health else 0)

    async def serve(self) -> None:
        """Keep a front running while there is anything to serve."""
        backoff = Backoff(first_s=0.5, most_s=30.0)
        options = ("--parent", str(os.getpid()))
        while True:
            await self._is_needed.wait()
            started = time.monotonic()
            try:
                async with running(self._setting.program, name="front", options=options) as child:
                    await self._converse(child)
            except (ChildEnded, ChildHung, ProtocolBroken) as error:
                self._note_end(str(error))
            if time.monotonic() - started > STEADY_S:
                backoff.reset()
            if self._is_needed.is_set():
                await asyncio.sleep(backoff.next_s())

    async def _converse(self, child: Child) -> None:
        self._child = child
        self._sources = self._find_sources()
        child.send(as_frame(self._setting.configure(sources=self._sources, suspects=self._quarantine.deaths)))
        for name in self._slots:
            self._load(name)
        while True:
            message = parse_front_message(await child.receive(timeout_s=self._patience_s()))
            match message:
                case Health():
                    self._slots.setdefault(message.slot, WantedSlot()).health = message
                case Answers():
                    task = asyncio.create_task(self._store(message, child))
                    self._storing.add(task)
                    task.add_done_callback(self._storing.discard)
                case Serving():
                    self._note_serving(message)
                case LoadFailed():
                    self._note_failure(message)
                case Stopped():
                    self._note_stopped(message)
                case WorkerDied():
                    self._note_death(message)
                case Notice():
                    self._note_event(message.name, message.detail)

    def _find_sources(self) -> tuple[Source, ...]:
        """Those that a front can take work from. One that waits for a secret is told, once for each reason."""
        found = list(self._setting.sources())
        waiting = {str(one) for one in found if not isinstance(one, Source)}
        for reason in sorted(waiting - self._waiting):
            self._note_event("source-waits", reason)
        self._waiting = waiting
        return tuple(one for one in found if isinstance(one, Source))

    def _patience_s(self) -> float | None:
        slots = self._slots.values()
        if any(slot.is_loading for slot in slots):
            return LOAD_TIMEOUT_S
        return SILENCE_S if any(slot.serving for slot in slots) else None

    async def _store(self, message: Answers, child: Child) -> None:
        await self._recorder.store(message.items)
        child.send(as_frame(Stored(tuple(answer.answer_id for answer in message.items))))

    def _load(self, name: str) -> None:
        """Have the front load what is to serve; without a front the next one will."""
        slot = self._slots[name]
        if self._child is None or slot.is_loading:
            return
        if slot.target is None:
            slot.serving = slot.health = None
            self.settle(name)
            slot.answer(None)
            self._on_change()
            return
        try:
            opened = self._setting.open(slot.target)
        except WireError as error:
            self._note_failure(LoadFailed(name, slot.target.reference, str(error)))
            return
        slot.is_loading, slot.tuned = True, self.choices_for(slot.target)
        self._loaded[slot.target.reference.manifest_sha256] = slot.tuned
        self._child.send(as_frame(Load(name, slot.target, opened.store, opened.content_keys, slot.tuned)))

    def _load_anew(self) -> None:
        """What serves by choices that count no more; a front finds out by itself where that makes no difference."""
        for name, slot in self._slots.items():
            is_settled = slot.is_serving and not slot.is_loading and name != self._in_update
            if is_settled and slot.wanted is not None and slot.tuned != self.choices_for(slot.wanted):
                self._load(name)

    def _end_update(self) -> None:
        """Nothing serves any more only as it was checked, where the update in which it was is over."""
        name = self._proven.release_checked
        if name and name != self._in_update:
            held = self._slots[name].wanted if name in self._slots else None
            served_by = self._served_by(held) if held else {}
            self._proven.end_update(held, served_by=served_by, choices=self._choices)
        kept = {held.reference.manifest_sha256 for slot in self._slots.values() for held in slot.held}
        self._loaded = {digest: choices for digest, choices in self._loaded.items() if digest in kept}

    def _served_by(self, held: HeldRelease) -> dict[ModelName, ServingChoice]:
        """The choices with which it was checked in this update; else those that it was loaded by last."""
        checked = self._proven.checked_with(held)
        return self._loaded.get(held.reference.manifest_sha256, self._choices) if checked is None else checked

    def _note_serving(self, message: Serving) -> None:
        slot = self._slots.setdefault(message.slot, WantedSlot())
        is_news = message.reference != (slot.serving.reference if slot.serving else None)
        slot.note_serving(message)
        if is_news and slot.failure:
            words = f"{_name(message.reference)} serves in place of the current release: {slot.failure}"
            self._note_event("standing-in", words)
        self._on_change()
        self._load_anew()

    def _note_failure(self, message: LoadFailed) -> None:
        slot = self._slots.setdefault(message.slot, WantedSlot())
        reason = message.reason[:MAX_REASON] or "the release can't be loaded"
        if message.reference.manifest_sha256 != slot.digest:
            if slot.target and slot.target.reference == message.reference:
                slot.is_loading = False  # what was to stand in can't either
                self._note_event("load-failed", f"{_name(message.reference)}: {reason}")
            return
        slot.is_loading = False
        if slot.is_serving:
            self._note_event("not-loaded-anew", f"{_name(message.reference)} serves on as it was: {reason}")
            return
        slot.answer(reason)
        self._note_event("load-failed", f"{_name(message.reference)}: {reason}")
        self._give_up(message.slot, reason, after_s=slot.retry.next_s())

    def _note_stopped(self, message: Stopped) -> None:
        """A release makes place for another, or has failed in every engine; then the previous one stands in."""
        slot = self._slots.setdefault(message.slot, WantedSlot())
        digest, reason = message.reference.manifest_sha256, message.reason[:MAX_REASON]
        if slot.serving_digest == digest:
            slot.serving = None
            self._on_change()
        if slot.is_loading or message.makes_place:
            return
        self._note_event("stopped", f"{_name(message.reference)}: {reason}")
        if digest == slot.digest:
            self._give_up(message.slot, reason, after_s=slot.revive.next_s())

    def _note_death(self, message: WorkerDied) -> None:
        """A worker is gone. It speaks against the release, unless an earlier one died of the same item."""
        slot = self._slots.setdefault(message.slot, WantedSlot())
        item, deaths = message.item_sha256, 0
        if item is not None:
            deaths = self._quarantine.note(item, reference=message.reference, at=time.time())
        if message.reference.manifest_sha256 == slot.digest and deaths <= 1:
            slot.deaths += 1
        what = f"{_name(message.reference)} in {message.engine} {message.engine_version}: {message.reason[:MAX_REASON]}"
        self._note_event("worker-died", what + (f"; it ran the item {item}" if item else "; it ran nothing"))
        if deaths == QUARANTINE_DEATHS:
            self._note_event("item-quarantined", f"workers died {deaths} times while they ran the item {item}")

    def _give_up(self, name: str, reason: str, *, after_s: float) -> None:
        """What is wanted can't serve now: the previous release stands in if nothing else serves. Try again later."""
        slot = self._slots[name]
        slot.failure = reason
        if slot.serving is None and slot.previous is not None:
            self._load(name)
        asyncio.get_running_loop().call_later(after_s, self._retry, name, slot.digest)

    def _retry(self, name: str, digest: str | None) -> None:
        """A release that is still wanted may load another time."""
        slot = self._slots[name]
        if slot.digest == digest and not slot.is_serving and not slot.is_loading:
            slot.failure = ""
            self._load(name)

    def _note_end(self, reason: str) -> None:
        """The front is gone, and with it all that it served and counted."""
        self._child = None
        self._on_end(self.counted())
        for name, slot in self._slots.items():
            if slot.note_front_end() and slot.deaths_in_load >= DEATHS_IN_LOAD and not slot.failure:
                if self._distrust_choice(slot, reason):
                    continue
                failure = f"the front ended {slot.deaths_in_load} times while it loaded {name}: {reason}"
                slot.answer(failure)
                self._give_up(name, failure, after_s=slot.retry.next_s())
        if self._is_needed.is_set():
            _LOG.warning("front: %s", reason)
            self._note_event("front-ended", reason)
        self._on_change()

    def _distrust_choice(self, slot: WantedSlot, reason: str) -> bool:
        """Fronts died while they loaded a release by a choice of tuning: the next loads it without, if there was one.

        Those deaths don't speak against the release.
        """
        if slot.wanted is None or not self._proven.distrust(slot.wanted, slot.tuned):
            return False
        words = f"the front ended {slot.deaths_in_load} times while it loaded it as tuning chose: {reason}"
        self._note_event("tuning-ignored", f"{_name(slot.wanted.reference)}: {words}")
        slot.deaths -= slot.deaths_in_load
        slot.deaths_in_load = 0
        return True

    def _note_event(self, name: str, detail: str) -> None:
        self._recorder.note(Event(at=time.time(), name=name, detail=detail[:4000]))


def _name(reference: ReleaseReference) -> str:
    return f"{reference.release} {reference.version}"
