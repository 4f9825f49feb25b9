"""How do files in a folder become answers, each exactly once?

A file is taken by name, lowest name first, and removed only once its answer is in the outbox. Power may go in between:
then it is run again, its answer has the same id, and the fleet keeps one. A file that took its name meanwhile is
another item and stays. Writers must move a finished file into the folder (names that begin with a dot are left alone,
and so is whatever is no file).
"""

import hashlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from shoal_wire.encoding import canonical
from shoal_wire.messages import Answer, ReleaseReference

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.serving_model import ModelFailed, ModelGone, ServingModel
from shoal_agent.front.suspects import Suspects
from shoal_agent.front_messages import QUARANTINE_DEATHS

MAX_ITEM_BYTES = 64 << 20
MAX_WAITING = 64
"""Answers that may wait for the outbox before no more items are taken."""
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
    """A file that was read."""

    path: Path
    identity: _Identity


class Slot(Protocol):
    """Where a source gets the model that serves at this moment."""

    def serving(self, timeout_s: float) -> tuple[ReleaseReference, ServingModel] | None:
        """The release that serves; waits up to `timeout_s` for one."""


class FolderSource:
    """Runs the files of one folder through one slot, in a thread of its own."""

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
        self._listed: deque[Path] = deque()
        self._waiting: dict[str, _Item] = {}
        self._kept: dict[Path, _Identity] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the item that is being run."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def mark_stored(self, answer_id: str) -> None:
        """The answer is on disk in the outbox: its file has done its work."""
        with self._changed:
            item = self._waiting.pop(answer_id, None)
            if item is not None:
                self._remove(item)
            self._changed.notify_all()

    def _remove(self, item: "_Item") -> None:
        """Remove the file that was answered. One that can't be removed is left, and not answered again and again."""
        try:
            if _identify(item.path) == item.identity:
                item.path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            self._kept[item.path] = item.identity
            _LOG.warning("source %s: %s is answered but can't be removed: %s", self._name, item.path, error.strerror)

    def _work(self) -> None:
        while not self._stopping:
            path = self._next_item()
            if path is None:
                self._pause(_POLL_S)
                continue
            identity = _identify(path)
            answer = self._answer(path) if identity is not None else None
            if answer is None or identity is None:
                continue
            with self._changed:
                self._waiting[answer.answer_id] = _Item(path, identity)
            self._deliver(answer)

    def _next_item(self) -> Path | None:
        """The next of the files that were there when the folder was last listed; then it is listed again."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < MAX_WAITING or self._stopping)
            taken = {item.path for item in self._waiting.values()}
        if not self._listed:
            named = (entry for entry in self._folder.iterdir() if not entry.name.startswith("."))
            self._listed.extend(sorted(entry for entry in named if entry not in taken and self._is_item(entry)))
        return self._listed.popleft() if self._listed else None

    def _is_item(self, entry: Path) -> bool:
        """A file, and not one that was answered and can't be removed."""
        return entry.is_file() and (entry not in self._kept or _identify(entry) != self._kept[entry])

    def _answer(self, path: Path) -> Answer | None:
        """The answer to a file; None where the file has gone or the source is stopping."""
        try:
            if path.stat().st_size > MAX_ITEM_BYTES:
                raise BadInput(f"{path.stat().st_size} bytes, expected at most {MAX_ITEM_BYTES}")
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except (BadInput, OSError) as error:
            return self._refusal(path, b"", error)
        return self._run(path, raw)

    def _run(self, path: Path, raw: bytes) -> Answer | None:
        digest, tries = hashlib.sha256(raw).hexdigest(), 0
        last = "quarantined before"
        while not self._stopping:
            if self._suspects.is_quarantined(digest):
                words = f"quarantined: workers died {QUARANTINE_DEATHS} times while they ran it: {last}"
                return self._refusal(path, raw, ModelFailed(words))
            serving = self._slot.serving(_RETRY_PAUSE_S)
            if serving is None:
                continue
            reference, model = serving
            try:
                answer, words, latency_ms = model.answer(raw, item_sha256=digest)
                return self._record(path, raw, reference, answer=answer, words=words, latency_ms=latency_ms)
            except BadInput as error:
                return self._refusal(path, raw, error, reference)
            except ModelGone:
                continue  # another release serves by now, or will
            except ModelFailed as error:
                last, tries = str(error), tries + 1
                if tries >= _MAX_TRIES:
                    return self._refusal(path, raw, error, reference)
            self._pause(_RETRY_PAUSE_S)
        return None

    def _refusal(
        self, path: Path, raw: bytes, error: Exception, reference: ReleaseReference | None = None
    ) -> Answer | None:
        """An item that can't be answered gets an answer that says so: it is accounted for like any other."""
        while reference is None and not self._stopping:
            serving = self._slot.serving(_RETRY_PAUSE_S)
            reference = serving[0] if serving else None
        if reference is None:
            return None
        return self._record(path, raw, reference, answer={"error": str(error)}, words=f"refused: {error}")

    def _record(
        self,
        path: Path,
        raw: bytes,
        reference: ReleaseReference,
        *,
        answer: dict[str, object],
        words: str,
        latency_ms: float = 0.0,
    ) -> Answer:
        digest = hashlib.sha256(raw).hexdigest()
        item = os.fsencode(path.name).decode(errors="backslashreplace")
        identity = canonical(["shoal/answer/v1", self._device, self._name, item, digest])
        return Answer(
            answer_id=hashlib.sha256(identity).hexdigest(),
            at=time.time(),
            source=self._name,
            item=item[:200],
            reference=reference,
            latency_ms=latency_ms,
            answer=answer,
            words=words[:4000],
        )

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, timeout=seconds)


def _identify(path: Path) -> _Identity | None:
    """Which file has this name now; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _Identity(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
