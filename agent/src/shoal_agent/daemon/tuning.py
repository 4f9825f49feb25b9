"""When are the models of this board tuned, and who hears of the verdicts?

By a niced child, one at a time, while there is no update; it measures on the live board, beside whatever serves. What
it chose, or a person with `shoal-agent tune`, is served by from then on.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from shoal_wire.encoding import ModelName
from shoal_wire.errors import WireError
from shoal_wire.messages import Event

from shoal_agent.daemon.looked import (
    MAX_DOWNS,
    Circumstances,
    Look,
    Looks,
    begin,
    digest_of,
    end,
    is_due,
    is_given_up,
    keep_looks,
    load_looks,
)
from shoal_agent.daemon.protocol import ProtocolBroken, parse_tuning_message
from shoal_agent.daemon.quiet import Quiet
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.serving import MAX_REASON, Setting
from shoal_agent.daemon.supervision import Child, ChildEnded, ChildHung, running
from shoal_agent.daemon.telemetry import Counted
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.slots import HeldRelease, Slots
from shoal_agent.tuned import FOLDER, SERVING, ServingChoice, load_choices
from shoal_agent.tuning_messages import Done, Found, NotFound, Tune, as_frame

SILENCE_S = 900.0
"""How long the child may say nothing, beside twice its budget: engines are probed, and loaded on a slow disk."""
_SAMPLES = 10
"""In a window."""

_LOG = logging.getLogger(__name__)


class Pace(NamedTuple):
    """How often, and how patiently."""

    look_s: float = 600.0
    """Between two looks at engines, processor and governor."""
    follow_s: float = 5.0
    """Between two looks at what a person has tuned."""
    window_s: float = 30.0
    """The board must have been quiet for that long before a tuning begins."""
    patience_s: float = 600.0
    """After that long it begins all the same."""


class Holder(Protocol):
    """What the board holds, as far as this needs it."""

    @property
    def slots(self) -> Slots:
        """As slots.json says."""

    def needs_updater(self) -> bool:
        """Whether there is an update to run."""


class Front(Protocol):
    """What serves, as far as this needs it."""

    def counted(self) -> list[Counted]:
        """Counts of what serves."""

    def follow(self, choices: Mapping[ModelName, ServingChoice]) -> None:
        """Serve by these choices."""


class TuningKeeper:
    """Runs the tuning child when there is something to find out."""

    def __init__(
        self,
        program: Sequence[str],
        *,
        setting: Setting,
        files: Files,
        holder: Holder,
        front: Front,
        circumstances: Callable[[], Circumstances],
        recorder: Recorder,
        pace: Pace,
    ) -> None:
        """`circumstances`: what holds at this moment, beside the releases."""
        self._program = program
        self._setting = setting
        self._files = files
        self._holder = holder
        self._front = front
        self._circumstances = circumstances
        self._recorder = recorder
        self._pace = pace
        self._looks = load_looks(files, setting.state)
        self._began = time.monotonic()
        self._given_up: set[tuple[str, str]] = set()
        self._followed: tuple[int, int] | None = None
        self._child: Child | None = None
        self._subject = ("", "")
        self._is_interrupted = False
        self._wake = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the child that runs."""
        return self._child.pid if self._child else None

    def look(self) -> None:
        """Slots or journal have changed, or a new assignment was accepted. An update ends a tuning at once."""
        if self._child and not self._may_tune(*self._subject):
            self._is_interrupted = True
            self._child.terminate()
        self._wake.set()

    def follow(self) -> None:
        """Have what is on the disk served by."""
        self._followed = self._mark()
        try:
            choices = load_choices(self._files, self._setting.state).models
        except StateDamaged as error:
            self._note_failure(f"{error}; every model is tuned anew")
            with contextlib.suppress(OSError):
                self._files.remove(self._setting.state / FOLDER / SERVING)
            self._looks, choices = self._failed_looks(), {}
        except OSError as error:  # another user's, or a disk that fails: it may be there again at the next start
            self._note_failure(f"what was chosen can't be read: {error}; serves as if nothing had been tuned")
            choices = {}
        self._front.follow(choices)

    async def serve(self) -> None:
        """Tune what is due, and follow what was tuned, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_following())
            if self._setting.configuration.tuning.at_install:
                tasks.create_task(self._keep_tuning())

    async def _keep_following(self) -> None:
        while True:
            await asyncio.sleep(self._pace.follow_s)
            if self._mark() != self._followed:
                self.follow()

    async def _keep_tuning(self) -> None:
        while True:
            self._wake.clear()
            due = self._find_due()
            if due is not None:
                name, held, digest = due
                if await self._wait_quiet(name, held):
                    await self._tune(name, held, digest=digest)
                continue
            try:
                async with asyncio.timeout(self._pace.look_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _find_due(self) -> tuple[str, HeldRelease, str] | None:
        """The first slot that has something to find out, with the digest of what is known about it."""
        if self._holder.needs_updater():
            return None
        circumstances = self._circumstances()
        for name, slot in sorted(self._holder.slots.slots.items()):
            if slot.current is not None:
                digest, look = digest_of(slot.current, circumstances), self._looks.slots.get(name)
                if is_due(look, digest=digest, now=time.time(), up_s=time.monotonic() - self._began):
                    return name, slot.current, digest
                if is_given_up(look, digest=digest):
                    self._tell_given_up(name, digest)
        return None

    def _may_tune(self, name: str, manifest_sha256: str) -> bool:
        slot = self._holder.slots.slots.get(name)
        is_current = slot and slot.current and slot.current.reference.manifest_sha256 == manifest_sha256
        return bool(is_current) and not self._holder.needs_updater()

    async def _wait_quiet(self, name: str, held: HeldRelease) -> bool:
        """Wait for a good moment; False where the release isn't to be tuned any more."""
        deadline = time.monotonic() + self._pace.patience_s
        quiet = Quiet(window_s=self._pace.window_s)
        while self._may_tune(name, held.reference.manifest_sha256):
            answering_ms = sum(health.histogram.total for _, health in self._front.counted())
            now = time.monotonic()
            if quiet.note(answering_ms, now=now) or now > deadline:
                return True
            await asyncio.sleep(self._pace.window_s / _SAMPLES)
        return False

    async def _tune(self, name: str, held: HeldRelease, *, digest: str) -> None:
        """One child, to its end. One that was interrupted, or ends with the daemon, doesn't count.

        There is none where the attempt can't be written down: if it took the board down, it would do so at every start.
        """
        before = self._looks.slots.get(name)
        begun = begin(before, digest=digest, now=time.time())
        try:
            await self._keep_look(name, begun)
        except OSError as error:
            self._note_failure(f"{name}: isn't tuned, since that can't be written down: {error}")
            self._remember(name, end(begun, is_done=False))
            return
        self._subject, self._is_interrupted = (name, held.reference.manifest_sha256), False
        after = before
        try:
            is_done = await self._converse(held)
            after = end(begun, is_done=is_done)
        except (ChildEnded, ChildHung, ProtocolBroken, WireError) as error:
            if not self._is_interrupted:
                self._note_failure(f"{name}: {error}")
                after = end(begun, is_done=False)
        finally:
            self._child = None
            try:
                await self._keep_look(name, after)
            except OSError as error:
                _LOG.error("what was tuned can't be written: %s", error)

    async def _converse(self, held: HeldRelease) -> bool:
        """Whether there is a verdict on every model."""
        configuration, state = self._setting.configuration, self._setting.state
        opened = self._setting.open(held)
        options = ("--parent", str(os.getpid()))
        patience_s = 2 * configuration.tuning.budget_s + SILENCE_S
        is_done = True
        async with running(self._program, name="tuning", options=options) as child:
            self._child = child
            self.look()  # an update may have begun while it started
            keys = opened.content_keys
            order = Tune(held=held, state=str(state), content_keys=keys, configuration=configuration)
            child.send(as_frame(order))
            while True:
                match parse_tuning_message(await child.receive(timeout_s=patience_s)):
                    case Found(row):
                        self._recorder.note(row)
                        self.follow()
                    case NotFound(model, reason):
                        is_done = False
                        self._note_failure(f"{model}: {reason}")
                    case Done():
                        return is_done

    async def _keep_look(self, name: str, look: Look | None) -> None:
        """Put it on the disk for the slot. Raises OSError."""
        self._remember(name, look)
        await asyncio.to_thread(keep_looks, self._files, self._setting.state, self._looks)

    def _remember(self, name: str, look: Look | None) -> None:
        """Note it for the slot; those of slots that are no more are forgotten."""
        slots = {other: kept for other, kept in self._looks.slots.items() if other in self._holder.slots.slots}
        slots.pop(name, None)
        self._looks = Looks(slots=slots if look is None else {**slots, name: look})

    def _failed_looks(self) -> Looks:
        """Those that found nothing: what they have waited for isn't forgotten when all others are."""
        return Looks(slots={name: look for name, look in self._looks.slots.items() if not look.is_done})

    def _tell_given_up(self, name: str, digest: str) -> None:
        """Once for each start of the daemon."""
        if (name, digest) not in self._given_up:
            self._given_up.add((name, digest))
            self._note_failure(
                f"{name}: the board went down during {MAX_DOWNS} tunings: none until release, engines, governor or "
                "agent change"
            )

    def _mark(self) -> tuple[int, int] | None:
        """Changes with each write of serving.json."""
        try:
            status = (self._setting.state / FOLDER / SERVING).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _note_failure(self, detail: str) -> None:
        _LOG.warning("tuning: %s", detail)
        self._recorder.note(Event(at=time.time(), name="tuning-failed", detail=detail[:MAX_REASON]))
