"""How does the front serve, swap releases without losing an item, and tell the daemon how they do?

One thread obeys the daemon; each source has its own. A swap loads and warms the new release beside the old one, then
flips: an item in progress ends on the release that it began with.
"""

import sys
import threading
import time
from pathlib import Path

from shoal_wire.messages import Answer, ReleaseReference
from shoal_worker.channel import Channel, ChannelTimeout

from shoal_agent import front_messages as messages
from shoal_agent.front.folder_source import FolderSource
from shoal_agent.front.loading import LoadFailure, Stored, load_manifest, load_models
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import WorkerOptions

HEALTH_PERIOD_S = 0.5


class LoadedRelease:
    """A release whose models answer."""

    def __init__(self, reference: ReleaseReference, models: dict[str, ServingModel]) -> None:
        self.reference = reference
        self.models = models
        self.first = next(iter(models.values()))

    def close(self) -> None:
        """End its workers once their runs have ended."""
        for model in self.models.values():
            model.close()


class ServingSlot:
    """The loaded releases of one slot, one of which serves."""

    def __init__(self) -> None:
        self._loaded: dict[str, LoadedRelease] = {}
        self._current: LoadedRelease | None = None
        self._changed = threading.Condition()

    def serving(self, timeout_s: float) -> tuple[ReleaseReference, ServingModel] | None:
        """See `folder_source.Slot`."""
        with self._changed:
            self._changed.wait_for(lambda: self._current is not None, timeout=timeout_s)
            return None if self._current is None else (self._current.reference, self._current.first)

    def current(self) -> LoadedRelease | None:
        """The release that serves."""
        with self._changed:
            return self._current

    def find(self, manifest_sha256: str) -> LoadedRelease | None:
        """A release that is loaded already."""
        with self._changed:
            return self._loaded.get(manifest_sha256)

    def flip(self, release: LoadedRelease) -> None:
        """Serve `release` from the next item on."""
        with self._changed:
            self._loaded[release.reference.manifest_sha256] = release
            self._current = release
            self._changed.notify_all()

    def unload(self, *, keep: tuple[str, ...]) -> None:
        """End every release that isn't named; one that serves, too."""
        with self._changed:
            gone = [self._loaded.pop(digest) for digest in list(self._loaded) if digest not in keep]
            if self._current in gone:
                self._current = None
        for release in gone:
            release.close()


class ServingFront:
    """The front that answers live input."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._slots: dict[str, ServingSlot] = {}
        self._sources: list[FolderSource] = []
        self._configuration: messages.Configure | None = None

    def run(self) -> None:
        """Obey the daemon until its channel ends, which raises ChannelClosed."""
        next_health = time.monotonic() + HEALTH_PERIOD_S
        while True:
            try:
                frame, _ = self._channel.receive(max(0.0, next_health - time.monotonic()))
                self._obey(messages.parse_from_daemon(frame))
            except ChannelTimeout:
                self._report_health()
                next_health = time.monotonic() + HEALTH_PERIOD_S

    def _obey(self, message: messages.FromDaemon) -> None:
        match message:
            case messages.Configure():
                self._configure(message)
            case messages.Load():
                self._load(message)
            case messages.Unload():
                self._slot(message.slot).unload(keep=message.keep)
            case messages.Stored():
                for source in self._sources:
                    for answer_id in message.answer_ids:
                        source.mark_stored(answer_id)
            case messages.Check():
                raise ValueError("the serving front was asked to check a candidate, which is another front's work")

    def _configure(self, configuration: messages.Configure) -> None:
        self._configuration = configuration
        for source in configuration.sources:
            folder_source = FolderSource(
                source.name,
                Path(source.path),
                device=configuration.device,
                slot=self._slot(source.release),
                deliver=self._deliver,
            )
            folder_source.start()
            self._sources.append(folder_source)

    def _load(self, order: messages.Load) -> None:
        slot, reference = self._slot(order.slot), order.held.reference
        try:
            release = slot.find(reference.manifest_sha256) or self._load_release(order)
        except LoadFailure as error:
            self._send(messages.LoadFailed(slot=order.slot, reference=reference, reason=str(error)))
            return
        slot.flip(release)
        info = release.first.info
        self._send(
            messages.Serving(
                slot=order.slot,
                reference=reference,
                variant=release.first.variant,
                engine=info.engine,
                engine_version=info.engine_version,
                placement=tuple(info.placement),
                load_ms=info.load_ms,
            )
        )

    def _load_release(self, order: messages.Load) -> LoadedRelease:
        assert self._configuration is not None, "Configure comes first"
        stored = Stored(held=order.held, store=Path(order.store), content_keys=order.content_keys)
        models = load_models(
            stored,
            load_manifest(stored),
            options=WorkerOptions(threads=self._configuration.threads),
            interpreters=self._configuration.interpreters,
            own=sys.executable,
        )
        return LoadedRelease(order.held.reference, models)

    def _report_health(self) -> None:
        for name, slot in self._slots.items():
            release = slot.current()
            if release is not None:
                counts = release.first.counts
                self._send(
                    messages.Health(
                        slot=name,
                        manifest_sha256=release.reference.manifest_sha256,
                        answers=counts.answers,
                        errors=counts.errors,
                        deaths=counts.deaths,
                        histogram=counts.latency_ms.histogram(),
                    )
                )

    def _deliver(self, answer: Answer) -> None:
        self._send(messages.Answers(items=(answer,)))

    def _send(self, message: messages.FromFront) -> None:
        self._channel.send(messages.as_frame(message))

    def _slot(self, name: str) -> ServingSlot:
        return self._slots.setdefault(name, ServingSlot())
