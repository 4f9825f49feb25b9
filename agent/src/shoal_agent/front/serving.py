"""How does the serving front follow its daemon, and what does it tell it?

The main loop hears the daemon and reports health. What takes long (loading, swapping, replacing a worker) is done by
one thread, in the order in which it was asked for. Each source has a thread of its own.
"""

import contextlib
import sys
import time
from functools import partial
from pathlib import Path

from shoal_wire.messages import Answer, ReleaseReference
from shoal_worker.channel import Channel, ChannelClosed, ChannelTimeout

from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting
from shoal_agent.front import cpu_budget, priority
from shoal_agent.front.errands import Errands
from shoal_agent.front.folder_source import FolderSource
from shoal_agent.front.loading import LoadFailure, LoadSetting, Stored, load_manifest, load_models, predict_peaks
from shoal_agent.front.model_workers import Death
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

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._errands = Errands()
        self._slots: dict[str, ServingSlot] = {}
        self._sources: list[FolderSource] = []
        self._configuration = messages.Configure(device="")
        self._suspects = Suspects({})
        self._threads = 1
        self._announced: dict[str, messages.Serving] = {}

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

    def stop_release(self, name: str, reference: ReleaseReference, reason: str) -> None:
        """No engine is left for a release: its items wait until the daemon has decided what serves."""
        release = self._slot(name).withdraw(reference.manifest_sha256)
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
        """Have a release serve, and say how it went. One that is loaded already serves at once."""
        slot, reference = self._slot(order.slot), order.held.reference
        loaded = slot.find(reference.manifest_sha256)
        try:
            if loaded is not None:
                slot.flip(loaded)
            else:
                self._swap(slot, order)
        except LoadFailure as error:
            self._send(messages.LoadFailed(slot=order.slot, reference=reference, reason=str(error)))
            return
        self._announce(order.slot, is_asked=True)
        self._share_threads()

    def _unload(self, order: messages.Unload) -> None:
        self._slot(order.slot).unload(keep=order.keep)
        self._share_threads()

    def _swap(self, slot: ServingSlot, order: messages.Load) -> None:
        stored = Stored(held=order.held, store=Path(order.store), content_keys=order.content_keys)
        setting = self._load_setting(order.slot)
        swap(
            slot,
            order,
            load=self._load_release,
            needed=predict_peaks(stored, load_manifest(stored), setting=setting),
            policy=self._slot_setting(order.slot).swap,
            on_gap=lambda release: self._say_stopped(order.slot, release.reference, "makes place for another release"),
            on_return=lambda _: self._announce(order.slot),
        )

    def _load_release(self, order: messages.Load, timeout_s: float) -> LoadedRelease:
        stored = Stored(held=order.held, store=Path(order.store), content_keys=order.content_keys)
        models = load_models(
            stored,
            load_manifest(stored),
            setting=self._load_setting(order.slot),
            watcher=_ReleaseWatcher(self, slot=order.slot, reference=order.held.reference),
            timeout_s=timeout_s,
        )
        return LoadedRelease(order, models)

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
            if release is not None and release.first.workers.threads != threads:
                release.first.workers.use_threads(threads)

    def _tend(self) -> None:
        now = time.monotonic()
        for slot in list(self._slots.values()):
            release = slot.current()
            for model in release.models.values() if release else ():
                chore = model.workers.tend(now=now)
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

    def _say_stopped(self, name: str, reference: ReleaseReference, reason: str) -> None:
        self._announced.pop(name, None)
        self._send(messages.Stopped(slot=name, reference=reference, reason=reason))

    def _deliver(self, answer: Answer) -> None:
        self._send(messages.Answers(items=(answer,)))

    def _send(self, message: messages.FromFront) -> None:
        with contextlib.suppress(ChannelClosed):  # the main loop hears of it and ends the front
            self._channel.send(messages.as_frame(message))

    def _slot(self, name: str) -> ServingSlot:
        return self._slots.setdefault(name, ServingSlot())


class _ReleaseWatcher:
    """Tells the front which release the news of a worker are about."""

    def __init__(self, front: ServingFront, *, slot: str, reference: ReleaseReference) -> None:
        self._front = front
        self._slot = slot
        self._reference = reference
        self._what = f"{reference.release} {reference.version}"

    def died(self, death: Death) -> None:
        """See `Watcher`."""
        self._front.report_death(self._slot, self._reference, death)

    def noticed(self, name: str, detail: str) -> None:
        """See `Watcher`."""
        self._front.notice(name, f"{self._what}: {detail}")

    def stopped(self, reason: str) -> None:
        """See `Watcher`."""
        self._front.stop_release(self._slot, self._reference, reason)
