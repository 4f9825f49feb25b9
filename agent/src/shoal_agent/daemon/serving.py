"""Which releases should serve, and how is the front kept at it?

What slots.json calls current is loaded; a front that ends is started again and loads it anew. Answers go to the outbox,
and only then does the front hear that their items are done.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import x25519
from shoal_wire.errors import WireError
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.messages import Event

from shoal_agent import updater_messages
from shoal_agent.configuration import Configuration
from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.grants import open_content_keys
from shoal_agent.daemon.protocol import ProtocolBroken, parse_front_message
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.supervision import Child, ChildEnded, ChildHung, running
from shoal_agent.daemon.telemetry import Counted
from shoal_agent.front_messages import (
    Answers,
    Configure,
    Health,
    Load,
    LoadFailed,
    Notice,
    Serving,
    Source,
    Stored,
    Unload,
    as_frame,
)
from shoal_agent.slots import STORE, HeldRelease, Slots

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
    """What a front needs to know of this device. The key opens grants and stays here."""

    program: Sequence[str]
    state: Path
    device: str
    key: x25519.X25519PrivateKey
    configuration: Configuration

    def configure(self, *, with_sources: bool) -> Configure:
        """The first message to a front."""
        configuration = self.configuration
        sources = [Source(source.name, source.kind, source.path, source.release) for source in configuration.sources]
        return Configure(
            device=self.device,
            sources=tuple(sources) if with_sources else (),
            threads=configuration.threads or len(os.sched_getaffinity(0)),
            interpreters=configuration.interpreters,
        )

    def open(self, held: HeldRelease) -> Opened:
        """Where a release is, and the keys that open it.

        Raises:
            Malformed, Untrusted: a grant doesn't open.
        """
        keys = open_content_keys(held, device=self.device, key=self.key)
        return Opened(str(self.state / STORE), keys)


class _Slot:
    """One model's place in the front."""

    def __init__(self) -> None:
        self.wanted: HeldRelease | None = None
        self.previous: HeldRelease | None = None
        self.serving: Serving | None = None
        self.health: Health | None = None
        self.is_loading = False
        self.deaths = 0
        """Of fronts, and of workers of fronts that ended, since `wanted` changed."""
        self.deaths_in_load = 0
        self.waiters: list[asyncio.Future[str | None]] = []
        self.retry = Backoff(first_s=5.0, most_s=300.0)

    @property
    def digest(self) -> str | None:
        """Of the wanted release's manifest."""
        return self.wanted.reference.manifest_sha256 if self.wanted else None

    @property
    def is_serving(self) -> bool:
        """Whether the front serves what is wanted."""
        return (self.serving.reference.manifest_sha256 if self.serving else None) == self.digest

    def answer(self, failure: str | None) -> None:
        """Tell those who wait how it went."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(failure)


class FrontKeeper:
    """Keeps a front serving what it should."""

    def __init__(
        self,
        setting: Setting,
        *,
        recorder: Recorder,
        on_change: Callable[[], None],
        on_end: Callable[[list[Counted]], None],
    ) -> None:
        """`on_change`: what serves has changed. `on_end`: a front ended, with its last counts."""
        self._setting = setting
        self._recorder = recorder
        self._on_change = on_change
        self._on_end = on_end
        self._slots: dict[str, _Slot] = {}
        self._child: Child | None = None
        self._is_needed = asyncio.Event()
        self._storing: set[asyncio.Task[None]] = set()

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

    def want(self, slots: Slots) -> None:
        """Serve what is current in these slots."""
        for name in self._slots.keys() | slots.slots.keys():
            slot = self._slots.setdefault(name, _Slot())
            held = slots.slots.get(name)
            wanted, slot.previous = (held.current, held.previous) if held else (None, None)
            if (wanted.reference.manifest_sha256 if wanted else None) != slot.digest:
                slot.wanted, slot.deaths, slot.deaths_in_load, slot.is_loading = wanted, 0, 0, False
                slot.retry.reset()
                self._load(name)
        if any(slot.wanted for slot in self._slots.values()):
            self._is_needed.set()
        else:
            self._is_needed.clear()
            if self._child:
                self._child.terminate()

    async def switch(self, name: str) -> str | None:
        """Wait until what is wanted in the slot serves; None then, or why it can't."""
        slot = self._slots.setdefault(name, _Slot())
        if slot.is_serving:
            return None
        waiter: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        slot.waiters.append(waiter)
        if not slot.is_loading:
            slot.deaths_in_load = 0
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
            deaths=slot.deaths + (health.deaths if health else 0),
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
        child.send(as_frame(self._setting.configure(with_sources=True)))
        for name in self._slots:
            self._load(name)
        while True:
            message = parse_front_message(await child.receive(timeout_s=self._patience_s()))
            match message:
                case Health():
                    self._slots.setdefault(message.slot, _Slot()).health = message
                case Answers():
                    task = asyncio.create_task(self._store(message, child))
                    self._storing.add(task)
                    task.add_done_callback(self._storing.discard)
                case Serving():
                    self._note_serving(message)
                case LoadFailed():
                    self._note_failure(message)
                case Notice():
                    self._note_event(message.name, message.detail)

    def _patience_s(self) -> float | None:
        slots = self._slots.values()
        if any(slot.is_loading for slot in slots):
            return LOAD_TIMEOUT_S
        return SILENCE_S if any(slot.serving for slot in slots) else None

    async def _store(self, message: Answers, child: Child) -> None:
        await self._recorder.store(message.items)
        child.send(as_frame(Stored(tuple(answer.answer_id for answer in message.items))))

    def _load(self, name: str) -> None:
        """Have the front load what is wanted; without a front the next one will."""
        slot = self._slots[name]
        if self._child is None or slot.is_loading:
            return
        if slot.wanted is None:
            slot.serving = slot.health = None
            self.settle(name)
            slot.answer(None)
            self._on_change()
            return
        try:
            opened = self._setting.open(slot.wanted)
        except WireError as error:
            self._note_failure(LoadFailed(name, slot.wanted.reference, str(error)))
            return
        slot.is_loading = True
        self._child.send(as_frame(Load(name, slot.wanted, opened.store, opened.content_keys)))

    def _note_serving(self, message: Serving) -> None:
        slot = self._slots.setdefault(message.slot, _Slot())
        slot.serving = message
        if slot.is_serving:
            slot.is_loading, slot.deaths_in_load = False, 0
            slot.retry.reset()
            slot.answer(None)
        self._on_change()

    def _note_failure(self, message: LoadFailed) -> None:
        slot = self._slots.setdefault(message.slot, _Slot())
        if message.reference.manifest_sha256 != slot.digest:
            return
        slot.is_loading = False
        reason = message.reason[:MAX_REASON] or "the release can't be loaded"
        slot.answer(reason)
        self._note_event("load-failed", f"{message.reference.release} {message.reference.version}: {reason}")
        asyncio.get_running_loop().call_later(slot.retry.next_s(), self._retry, message.slot, slot.digest)

    def _retry(self, name: str, digest: str) -> None:
        """A release that is still wanted may load another time: memory was short, or an interpreter was missing."""
        slot = self._slots[name]
        if slot.digest == digest and not slot.is_serving:
            self._load(name)

    def _note_end(self, reason: str) -> None:
        """The front is gone, and with it all that it served and counted."""
        self._child = None
        self._on_end(self.counted())
        for name, slot in self._slots.items():
            if slot.health and slot.health.manifest_sha256 == slot.digest:
                slot.deaths += slot.health.deaths
            slot.serving = slot.health = None
            if slot.wanted is None:
                slot.answer(None)
                continue
            slot.deaths += 1
            if slot.is_loading:
                slot.is_loading = False
                slot.deaths_in_load += 1
                if slot.deaths_in_load >= DEATHS_IN_LOAD:
                    slot.answer(f"the front ended {slot.deaths_in_load} times while it loaded {name}: {reason}")
        if self._is_needed.is_set():
            _LOG.warning("front: %s", reason)
            self._note_event("front-ended", reason)
        self._on_change()

    def _note_event(self, name: str, detail: str) -> None:
        self._recorder.note(Event(at=time.time(), name=name, detail=detail[:4000]))
