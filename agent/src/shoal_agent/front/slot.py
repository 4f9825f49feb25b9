"""Which of a model's loaded releases serves at this moment?"""

import threading
from collections.abc import Sequence

from shoal_wire.messages import ReleaseReference

from shoal_agent.front.loading import Way
from shoal_agent.front.serving_model import Counts, ServingModel
from shoal_agent.front_messages import Load


class LoadedRelease:
    """A release whose models answer. `order` is what it was loaded by, and can be again; `ways` came of it.

    `number` tells one load of a front from another, of the same release too.
    """

    def __init__(self, order: Load, models: dict[str, ServingModel], *, number: int, ways: Sequence[Way]) -> None:
        self.order = order
        self.number = number
        self.ways = tuple(ways)
        self.reference = order.held.reference
        self.models = models
        self.first = next(iter(models.values()))

    def held_bytes(self) -> int:
        """The memory that its workers hold."""
        return sum(model.workers.held_bytes() for model in self.models.values())

    def rest(self) -> None:
        """Keep no spare workers while it doesn't serve, or while memory is needed."""
        for model in self.models.values():
            model.workers.rest()

    def close(self) -> None:
        """End its workers once their runs have ended."""
        for model in self.models.values():
            model.close()


class ServingSlot:
    """The loaded releases of one slot, of which one serves, or none for a moment. Threads may share it."""

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

    def idle_bytes(self) -> int:
        """The memory of releases that are loaded and don't serve."""
        with self._changed:
            idle = [release for release in self._loaded.values() if release is not self._current]
        return sum(release.held_bytes() for release in idle)

    def flip(self, release: LoadedRelease) -> LoadedRelease | None:
        """Serve `release` from the next item on. What it counted when it served before is forgotten: the daemon judges
        it by what it does now. Returns an earlier load of the same release that it takes the place of, for the caller
        to close."""
        with self._changed:
            if release is not self._current:
                release.first.counts = Counts()
            replaced = self._loaded.get(release.reference.manifest_sha256)
            self._loaded[release.reference.manifest_sha256] = release
            before, self._current = self._current, release
            self._changed.notify_all()
        if before is not None and before is not release:
            before.rest()
        return None if replaced is release else replaced

    def withdraw(self, manifest_sha256: str, *, number: int | None = None) -> LoadedRelease | None:
        """Take a release out of the slot: if it serves, items wait from now on. The caller closes it.

        With `number` only if it is that load of it, which it isn't any more once another took its place.
        """
        with self._changed:
            release = self._loaded.get(manifest_sha256)
            if release is None or (number is not None and release.number != number):
                return None
            del self._loaded[manifest_sha256]
            if release is self._current:
                self._current = None
        return release

    def unload(self, *, keep: tuple[str, ...]) -> None:
        """End every release that isn't named; one that serves, too."""
        with self._changed:
            gone = [digest for digest in self._loaded if digest not in keep]
        for digest in gone:
            release = self.withdraw(digest)
            if release is not None:
                release.close()
