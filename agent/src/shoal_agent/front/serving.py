"""How does the serving front follow its daemon, and what does it tell it?

The main loop hears the daemon and reports health. What takes long (loading, swapping, replacing a worker) is done by
one thread, in the order in which it was asked for. Each source has a thread of its own.
"""

import contextlib
import itertools
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from shoal_wire.manifest import Manifest
from shoal_wire.messages import Answer, ReleaseReference
from shoal_worker.channel import Channel, ChannelClosed, ChannelTimeout

from shoal_agent import cpu_budget
from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting
from shoal_agent.files import DiskFiles
from shoal_agent.front import priority
from shoal_agent.front.errands import Errands
from shoal_agent.front.folder_source import FolderSource
from shoal_agent.front.loading import (
    LoadFailure,
    LoadSetting,
    Stored,
    choose_ways,
    is_same,
    load_manifest,
    load_models,
    predict_peaks,
)
from shoal_agent.front.model_workers import Death
from shoal_agent.front.plan_serving import PlanServing
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.slot import LoadedRelease, ServingSlot
from shoal_agent.front.suspects import Suspects
from shoal_agent.front.swapping import swap
from shoal_agent.front.worker import WorkerOptions
from shoal_agent.front.worker_group import remove_leftovers

HEALTH_PERIOD_S = 0.5
LOAD_NICE = 10
"""A release that is loaded must not take the processor from the one that serves."""


class ServingFront:
    """The front that answers live input."""

    def __init__(self, channel: Channel, *, warnings: Mapping[str, str]) -> None:
        """`warnings` is what the fleet is to be told first, by name of the event."""
        self._channel = channel
        self._warnings = warnings
        self._gaps: set[str] = set()
        self._errands = Errands()
        self._slots: dict[str, ServingSlot] = {}
        self._sources: list[FolderSource] = []
        self._configuration = messages.Configure(device="")
        self._suspects = Suspects({})
        self._threads = 1
        self._announced: dict[str, messages.Serving] = {}
        self._loads = itertools.count()
        self._plans = PlanServing(files=DiskFiles(), do_in_turn=self._errands.put, notice=self.notice)

    def run(self) -> None:
        """Obey the daemon until its channel ends, which raises ChannelClosed."""
        next_health = time.monotonic() + HEALTH_PERIOD_S
        while True:
            try:
                frame, _ = self._channel.receive(max(0.0, next_health - time.monotonic()))
                self._obey(messages.parse_from_daemon(frame))
            except ChannelTimeout:
                self._errands.check()
                self._tend()
                self._report_health()
                next_health = time.monotonic() + HEALTH_PERIOD_S

    def stop_release(self, name: str, reference: ReleaseReference, *, number: int, reason: str) -> None:
        """No engine is left for a release as it was loaded: its items wait until the daemon has decided what serves."""
        release = self._slot(name).withdraw(reference.manifest_sha256, number=number)
        if release is not None:
            self._say_stopped(name, reference, reason)
            self._errands.put(release.close)

    def report_death(self, name: str, reference: ReleaseReference, death: Death) -> None:
        """A worker was lost."""
        if death.item_sha256:
            self._suspects.note(death.item_sha256)
        self._send(
            messages.WorkerDied(
                slot=name,
                reference=reference,
                engine=death.engine,
                engine_version=death.engine_version,
                reason=death.reason,
                exit_code=death.exit_code,
                peak_bytes=death.peak_bytes,
                item_sha256=death.item_sha256 or None,
            )
        )

    def notice(self, name: str, detail: str) -> None:
        """Something for the fleet's list of events."""
        self._send(messages.Notice(name, detail))

    def _obey(self, message: messages.FromDaemon) -> None:
        match message:
            case messages.Configure():
                self._configure(message)
            case messages.Load():
                self._slot(message.slot)
                self._errands.put(partial(self._load, message))
            case messages.Unload():
                self._slot(message.slot)
                self._errands.put(partial(self._unload, message))
            case messages.Stored():
                for source in self._sources:
                    for answer_id in message.answer_ids:
                        source.mark_stored(answer_id)
            case messages.Check():
                raise ValueError("the serving front was asked to check a candidate, which is another front's work")

    def _configure(self, configuration: messages.Configure) -> None:
        for name, detail in self._warnings.items():
            self.notice(name, detail)
        self._configuration = configuration
        self._suspects = Suspects(configuration.suspects)
        if configuration.groups:
            remove_leftovers(Path(configuration.groups))
        self._threads = cpu_budget.budget(cpu_budget.read_processors(), configured=configuration.threads)
        for source in configuration.sources:
            folder_source = FolderSource(
                source.name,
                Path(source.path),
                device=configuration.device,
                slot=self._slot(source.release),
                suspects=self._suspects,
                deliver=self._deliver,
            )
            folder_source.start()
            self._sources.append(folder_source)

    def _load(self, order: messages.Load) -> None:
        """Have a release serve, and say how it went.

        One that is loaded and doesn't serve does at once, as it is: it may be the way back. One that serves is loaded
        anew if it is to run in another way.
        """
        slot, reference = self._slot(order.slot), order.held.reference
        loaded = slot.find(reference.manifest_sha256)
        try:
            if loaded is None:
                self._load_first(slot, order)
            elif loaded is not slot.current():
                slot.flip(loaded)
            elif not is_same(loaded.ways, choose_ways(*_read(order), setting=self._load_setting(order.slot))):
                self._swap(slot, order)
        except LoadFailure as error:
            self._send(messages.LoadFailed(slot=order.slot, reference=reference, reason=str(error)))
            return
        self._announce(order.slot, is_asked=True)
        self._share_threads()

    def _unload(self, order: messages.Unload) -> None:
        self._slot(order.slot).unload(keep=order.keep)
        self._share_threads()

    def _load_first(self, slot: ServingSlot, order: messages.Load) -> None:
        """Load a release of which nothing is loaded. If what was chosen can't be, as if nothing had been tuned."""
        try:
            self._swap(slot, order)
        except LoadFailure as error:
            if not any(way.choice for way in choose_ways(*_read(order), setting=self._load_setting(order.slot))):
                raise
            reference = order.held.reference
            self.notice("tuning-ignored", f"{reference.release} {reference.version}: {error}")
            self._swap(slot, msgspec.structs.replace(order, tuned={}))

    def _swap(self, slot: ServingSlot, order: messages.Load) -> None:
        stored, manifest = _read(order)
        ways = choose_ways(stored, manifest, setting=self._load_setting(order.slot))
        swap(
            slot,
            order,
            load=self._load_release,
            needed=predict_peaks(manifest, ways),
            policy=self._slot_setting(order.slot).swap,
            on_gap=lambda release: self._say_stopped(
                order.slot, release.reference, "makes place for what is loaded now", makes_place=True
            ),
            on_return=lambda _: self._announce(order.slot),
        )

    def _load_release(self, order: messages.Load, timeout_s: float) -> LoadedRelease:
        stored, manifest = _read(order)
        setting, number = self._load_setting(order.slot), next(self._loads)
        ways = choose_ways(stored, manifest, setting=setting)
        models = load_models(
            stored,
            manifest,
            ways,
            setting=setting,
            watcher=_ReleaseWatcher(self, slot=order.slot, reference=order.held.reference, number=number),
            timeout_s=timeout_s,
        )
        self._tell_gaps(models.values())
        self._plans.seek(stored, manifest, models)
        return LoadedRelease(order, models, number=number, ways=ways)

    def _tell_gaps(self, models: Iterable[ServingModel]) -> None:
        """Say what doesn't hold the workers that should, once for each front."""
        gaps = {gap for model in models for gap in model.info.sandbox_gaps} - self._gaps
        for gap in sorted(gaps):
            self.notice("worker-sandbox-incomplete", gap)
        self._gaps |= gaps

    def _load_setting(self, slot: str) -> LoadSetting:
        groups = self._configuration.groups
        options = WorkerOptions(
            threads=self._shares(also=slot)[slot],
            load_nice=LOAD_NICE if priority.can_restore() else 0,
            groups=Path(groups) if groups else None,
        )
        return LoadSetting(
            options=options,
            interpreters=self._configuration.interpreters,
            engines=self._configuration.engines,
            own=sys.executable,
            deadline_s=self._slot_setting(slot).deadline_s,
            is_beside=self._slot(slot).current() is not None,
        )

    def _slot_setting(self, slot: str) -> SlotSetting:
        return self._configuration.slots.get(slot, SlotSetting())

    def _shares(self, *, also: str | None = None) -> dict[str, int]:
        """Threads of each slot that serves, and of one that is to serve."""
        names = sorted(name for name, slot in list(self._slots.items()) if slot.current() or name == also)
        wanted = [self._slot_setting(name).threads for name in names]
        return dict(zip(names, cpu_budget.share(self._threads, wanted=wanted), strict=True))

    def _share_threads(self) -> None:
        """Another slot serves, or one less: give every worker its share of the processors."""
        for name, threads in self._shares().items():
            release = self._slots[name].current()
            for model in release.models.values() if release else ():
                model.workers.use_threads(threads)

    def _tend(self) -> None:
        now = time.monotonic()
        for name, slot in list(self._slots.items()):
            release, spares = slot.current(), self._slot_setting(name).spares
            for model in release.models.values() if release else ():
                chore = model.workers.tend(now=now, spares=spares)
                if chore is not None:
                    self._errands.put(chore)

    def _report_health(self) -> None:
        for name, slot in list(self._slots.items()):
            release = slot.current()
            if release is None:
                continue
            self._announce(name)
            counts = release.first.counts
            self._send(
                messages.Health(
                    slot=name,
                    manifest_sha256=release.reference.manifest_sha256,
                    load=release.number,
                    answers=counts.answers,
                    errors=counts.errors,
                    deaths=release.first.workers.deaths,
                    histogram=counts.latency_ms.histogram(),
                )
            )

    def _announce(self, name: str, *, is_asked: bool = False) -> None:
        """Say what serves in a slot, if the daemon asked or if it isn't what was said last."""
        release = self._slots[name].current()
        if release is None:
            return
        info = release.first.info
        serving = messages.Serving(
            slot=name,
            reference=release.reference,
            variant=release.first.variant,
            engine=info.engine,
            engine_version=info.engine_version,
            placement=tuple(info.placement),
            load_ms=info.load_ms,
        )
        if is_asked or serving != self._announced.get(name):
            self._announced[name] = serving
            self._send(serving)

    def _say_stopped(self, name: str, reference: ReleaseReference, reason: str, *, makes_place: bool = False) -> None:
        self._announced.pop(name, None)
        self._send(messages.Stopped(slot=name, reference=reference, reason=reason, makes_place=makes_place))

    def _deliver(self, answer: Answer) -> None:
        self._send(messages.Answers(items=(answer,)))

    def _send(self, message: messages.FromFront) -> None:
        with contextlib.suppress(ChannelClosed):  # the main loop hears of it and ends the front
            self._channel.send(messages.as_frame(message))

    def _slot(self, name: str) -> ServingSlot:
        return self._slots.setdefault(name, ServingSlot())


class _ReleaseWatcher:
    """Tells the front which load of which release the news of a worker are about."""

    def __init__(self, front: ServingFront, *, slot: str, reference: ReleaseReference, number: int) -> None:
        self._front = front
        self._slot = slot
        self._reference = reference
        self._number = number
        self._what = f"{reference.release} {reference.version}"

    def died(self, death: Death) -> None:
        """See `Watcher`."""
        self._front.report_death(self._slot, self._reference, death)

    def noticed(self, name: str, detail: str) -> None:
        """See `Watcher`."""
        self._front.notice(name, f"{self._what}: {detail}")

    def stopped(self, reason: str) -> None:
        """See `Watcher`."""
        self._front.stop_release(self._slot, self._reference, number=self._number, reason=reason)


def _read(order: messages.Load) -> tuple[Stored, Manifest]:
    """Raises LoadFailure."""
    stored = Stored(held=order.held, store=Path(order.store), content_keys=order.content_keys, tuned=order.tuned)
    return stored, load_manifest(stored)
