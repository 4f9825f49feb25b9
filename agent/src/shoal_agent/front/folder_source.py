"""How do files in a folder become answers, each exactly once?

A file is taken by name, lowest name first, and removed only once its answer is in the outbox. Power may go in between:
then it is run again, its answer has the same id, and the fleet keeps one. A file that took its name meanwhile is
another item and stays. Writers must move a finished file into the folder (names that begin with a dot are left alone,
and so is whatever is no file).

Two items are under way at once, so that the worker computes one while the other is prepared or put into an answer; the
second may be answered before the first.
"""

import contextlib
import hashlib
import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from shoal_wire.encoding import canonical
from shoal_wire.messages import Answer, ReleaseReference

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.serving_model import Answered, ModelFailed, ModelGone, WorkerGone
from shoal_agent.front.suspects import Suspects
from shoal_agent.front_messages import QUARANTINE_DEATHS

MAX_ITEM_BYTES = 64 << 20
MAX_WAITING = 64
"""Items that are under way, or answered and not in the outbox yet, before no more are taken."""
UNDER_WAY = 2
"""Items at once."""
_POLL_S = 0.1
_RETRY_PAUSE_S = 0.5
_MAX_TRIES = 5
_LOG = logging.getLogger(__name__)


class _Identity(NamedTuple):
    """What tells a file from another one that has its name."""

    device: int
    inode: int
    changed_ns: int
    size_bytes: int


class _Item(NamedTuple):
    """A file that was read, or why it wasn't."""

    name: str
    identity: _Identity
    raw: bytes
    trouble: Exception | None = None


class _Answered(NamedTuple):
    """A file whose answer isn't in the outbox yet."""

    name: str
    identity: _Identity


class Model(Protocol):
    """What answers an item: `serving_model.ServingModel`. Threads may share it."""

    def answer(self, raw: bytes, *, item_sha256: str) -> Answered:
        """The answer to one item. Raises BadInput, ModelGone or ModelFailed."""


class Slot(Protocol):
    """Where a source gets the model that serves at this moment."""

    def serving(self, timeout_s: float) -> tuple[ReleaseReference, Model] | None:
        """The release that serves; waits up to `timeout_s` for one."""


class FolderSource:
    """Runs the files of one folder through one slot, in threads of its own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        device: str,
        slot: Slot,
        suspects: Suspects,
        deliver: Callable[[Answer], None],
    ) -> None:
        self._name = name
        self._folder = folder
        self._device = device
        self._slot = slot
        self._suspects = suspects
        self._deliver = deliver
        self._stopping = threading.Event()
        self._taking = threading.Lock()  # whoever looks for the next item; also for the next two
        self._listed: deque[str] = deque()
        self._is_lost = False  # the folder
        self._changed = threading.Condition()  # there may be room for one more item; also for what follows
        self._under_way: set[str] = set()
        self._waiting: dict[str, _Answered] = {}
        self._kept: dict[str, _Identity] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"source-{name}-{number}", daemon=True)
            for number in range(UNDER_WAY)
        ]

    def start(self) -> None:
        """Begin."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the items that are under way."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def mark_stored(self, answer_id: str) -> None:
        """The answer is on disk in the outbox: its file has done its work."""
        answered = self._waiting.get(answer_id)
        if answered is None:
            return
        self._remove(answered)
        with self._changed:  # only now: until then the file must not be taken for a new one
            self._waiting.pop(answer_id, None)
            self._changed.notify_all()

    def _remove(self, answered: _Answered) -> None:
        """Remove the file that was answered. One that can't be removed is left, and not answered again and again."""
        path = self._folder / answered.name
        try:
            if _identify(path.stat()) == answered.identity:
                path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            self._kept[answered.name] = answered.identity
            _LOG.warning("source %s: %s is answered but can't be removed: %s", self._name, path, error.strerror)

    def _work(self) -> None:
        while (name := self._take_item()) is not None:
            item = self._read(name)
            answer = self._answer(item) if item is not None else None
            with self._changed:
                self._under_way.remove(name)
                if item is None or answer is None:
                    self._changed.notify_all()
                    continue
                self._waiting[answer.answer_id] = _Answered(name, item.identity)
            self._deliver(answer)

    def _take_item(self) -> str | None:
        """The next item, which is under way from now on; waits for one. None once the source is stopping."""
        with self._taking:
            while not self._stopping.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: self._has_room() or self._stopping.is_set())
                name = self._next_listed()
                if name is not None:
                    with self._changed:
                        self._under_way.add(name)
                    return name
                self._stopping.wait(_POLL_S)
        return None

    def _has_room(self) -> bool:
        return len(self._waiting) + len(self._under_way) < MAX_WAITING

    def _next_listed(self) -> str | None:
        """The next of the files that were there when the folder was last listed; then it is listed again."""
        if not self._listed:
            with self._changed:
                taken = self._under_way | {answered.name for answered in self._waiting.values()}
            self._listed.extend(sorted(name for name in self._list() if name not in taken))
        return self._listed.popleft() if self._listed else None

    def _list(self) -> list[str]:
        """The items in the folder; none while it can't be read, of which a person hears once."""
        try:
            with os.scandir(self._folder) as entries:
                found = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()]
        except OSError as error:
            if not self._is_lost:
                _LOG.warning("source %s: folder %s can't be read: %s", self._name, self._folder, error.strerror)
            self._is_lost = True
            return []
        self._is_lost = False
        return [name for name in found if not self._is_kept(name)] if self._kept else found

    def _is_kept(self, name: str) -> bool:
        """Whether it was answered and can't be removed."""
        if name not in self._kept:
            return False
        with contextlib.suppress(OSError):
            return _identify((self._folder / name).stat()) == self._kept[name]
        return False

    def _read(self, name: str) -> _Item | None:
        """A file with all its bytes; None where it has gone, or is no file any more."""
        path = self._folder / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # not to wait, should it have become a pipe
            with os.fdopen(fd, "rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return None
                if found.st_size > MAX_ITEM_BYTES:
                    trouble = BadInput(f"{found.st_size} bytes, expected at most {MAX_ITEM_BYTES}")
                    return _Item(name, _identify(found), b"", trouble)
                return _Item(name, _identify(found), file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            with contextlib.suppress(OSError):
                return _Item(name, _identify(path.stat()), b"", error)
            return None

    def _answer(self, item: _Item) -> Answer | None:
        """The answer to an item; None where the source is stopping."""
        digest = hashlib.sha256(item.raw).hexdigest()
        if item.trouble is not None:
            return self._refusal(item, digest, item.trouble)
        return self._run(item, digest)

    def _run(self, item: _Item, digest: str) -> Answer | None:
        tries, last = 0, "quarantined before"
        while not self._stopping.is_set():
            if self._suspects.is_quarantined(digest):
                words = f"quarantined: workers died {QUARANTINE_DEATHS} times while they ran it: {last}"
                return self._refusal(item, digest, ModelFailed(words))
            serving = self._slot.serving(_RETRY_PAUSE_S)
            if serving is None:
                continue
            reference, model = serving
            try:
                answer, words, latency_ms, _ = model.answer(item.raw, item_sha256=digest)
                return self._record(item, digest, reference, answer=answer, words=words, latency_ms=latency_ms)
            except BadInput as error:
                return self._refusal(item, digest, error, reference)
            except ModelGone:
                continue  # another release serves by now, or will
            except ModelFailed as error:
                last, tries = str(error), tries + 1
                if tries >= _MAX_TRIES:
                    return self._refusal(item, digest, error, reference)
                if isinstance(error, WorkerGone):
                    continue  # who starts the next worker waits as long as it should
            self._stopping.wait(_RETRY_PAUSE_S)
        return None

    def _refusal(
        self, item: _Item, digest: str, error: Exception, reference: ReleaseReference | None = None
    ) -> Answer | None:
        """An item that can't be answered gets an answer that says so: it is accounted for like any other."""
        while reference is None and not self._stopping.is_set():
            serving = self._slot.serving(_RETRY_PAUSE_S)
            reference = serving[0] if serving else None
        if reference is None:
            return None
        return self._record(item, digest, reference, answer={"error": str(error)}, words=f"refused: {error}")

    def _record(
        self,
        item: _Item,
        digest: str,
        reference: ReleaseReference,
        *,
        answer: dict[str, object],
        words: str,
        latency_ms: float = 0.0,
    ) -> Answer:
        name = os.fsencode(item.name).decode(errors="backslashreplace")
        identity = canonical(["shoal/answer/v1", self._device, self._name, name, digest])
        return Answer(
            answer_id=hashlib.sha256(identity).hexdigest(),
            at=time.time(),
            source=self._name,
            item=name[:200],
            reference=reference,
            latency_ms=latency_ms,
            answer=answer,
            words=words[:4000],
        )


def _identify(found: os.stat_result) -> _Identity:
    return _Identity(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
