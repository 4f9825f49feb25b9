"""How do files in a folder become answers, each exactly once?

A file is taken by name, oldest name first, and removed only once its answer is in the outbox. Power may go in between:
then it is run again, its answer has the same id, and the fleet keeps one. Writers must move a finished file into the
folder (names that begin with a dot are left alone).
"""

import contextlib
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from shoal_wire.encoding import canonical
from shoal_wire.messages import Answer, ReleaseReference

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.serving_model import ModelFailed, ServingModel, WorkerGone

MAX_ITEM_BYTES = 64 << 20
MAX_WAITING = 64
"""Answers that may wait for the outbox before no more items are taken."""
_POLL_S = 0.1
_RETRY_PAUSE_S = 0.5
_MAX_TRIES = 5
_MAX_DEATHS = 2
"""An item in flight at that many deaths of a worker is quarantined: one poisoned input must not stop a model."""


class Slot(Protocol):
    """Where a source gets the model that serves at this moment."""

    def serving(self, timeout_s: float) -> tuple[ReleaseReference, ServingModel] | None:
        """The release that serves; waits up to `timeout_s` for one."""


class FolderSource:
    """Runs the files of one folder through one slot, in a thread of its own."""

    def __init__(self, name: str, folder: Path, *, device: str, slot: Slot, deliver: Callable[[Answer], None]) -> None:
        self._name = name
        self._folder = folder
        self._device = device
        self._slot = slot
        self._deliver = deliver
        self._listed: deque[Path] = deque()
        self._waiting: dict[str, Path] = {}
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
            path = self._waiting.pop(answer_id, None)
            if path is not None:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            self._changed.notify_all()

    def _work(self) -> None:
        while not self._stopping:
            path = self._next_item()
            if path is None:
                self._pause(_POLL_S)
                continue
            answer = self._answer(path)
            if answer is None:
                continue
            with self._changed:
                self._waiting[answer.answer_id] = path
            self._deliver(answer)

    def _next_item(self) -> Path | None:
        """The next of the files that were there when the folder was last listed; then it is listed again."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < MAX_WAITING or self._stopping)
            taken = set(self._waiting.values())
        if not self._listed:
            self._listed.extend(
                sorted(
                    entry for entry in self._folder.iterdir() if not entry.name.startswith(".") and entry not in taken
                )
            )
        return self._listed.popleft() if self._listed else None

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
        tries = deaths = 0
        while not self._stopping:
            serving = self._slot.serving(_RETRY_PAUSE_S)
            if serving is None:
                continue
            reference, model = serving
            try:
                answer, latency_ms = model.answer(raw)
                words = model.pipeline.describe(answer)
                return self._record(path, raw, reference, answer=answer, words=words, latency_ms=latency_ms)
            except BadInput as error:
                return self._refusal(path, raw, error, reference)
            except ModelFailed as error:
                tries += 1
                deaths += isinstance(error, WorkerGone)
                if tries >= _MAX_TRIES or deaths >= _MAX_DEATHS:
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
