"""When does the updater run, and what does it get from the daemon while it does?

It is started again until there is nothing for it to do. One updater runs at a time, to update or only to fetch newer
assignment keys.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from shoal_wire.messages import Event

from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.own_agent import OwnAgent
from shoal_agent.daemon.protocol import ProtocolBroken, parse_updater_message
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.serving import FrontKeeper
from shoal_agent.daemon.supervision import Child, ChildEnded, ChildHung, running
from shoal_agent.front_messages import Notice
from shoal_agent.slots import HeldRelease
from shoal_agent.updater_messages import (
    AgentQuestion,
    BaselineQuestion,
    CheckQuestion,
    Done,
    FromUpdater,
    KeysQuestion,
    Progress,
    Restart,
    ServeFailed,
    Serving,
    Settled,
    Superseded,
    Switch,
    Verdict,
    as_frame,
)

TRY_LATER = 75
"""Exit code of an updater that couldn't reach the fleet."""
HEALTH_PERIOD_S = 0.5
REFRESH_PAUSE_S = 10.0
"""Least time between two starts only for newer keys; grows while they bring none."""
LOOK_S = 86_400
"""Between two looks at the signed metadata while there is nothing to update: something may have been revoked."""
FIRST_LOOK_S = 3_600

_LOG = logging.getLogger(__name__)


class Holder(Protocol):
    """The daemon, as far as this needs it."""

    def reload(self) -> None:
        """Journal, slots or trusted keys may have changed on the disk."""

    def needs_updater(self) -> bool:
        """Whether there is something to update."""

    def release_in_update(self) -> str | None:
        """The slot that the journal is about."""

    def silence_s(self) -> float:
        """How long an updater may say nothing."""


class UpdaterKeeper:
    """Runs the updater when there is something to do."""

    def __init__(
        self,
        program: Sequence[str],
        *,
        state: Path,
        engines: Mapping[str, Sequence[str]],
        all_variants: bool,
        holder: Holder,
        front: FrontKeeper,
        own: OwnAgent,
        check: Callable[[HeldRelease], Awaitable[Verdict]],
        recorder: Recorder,
        on_begin: Callable[[], None],
    ) -> None:
        """`engines` that may run models here, by format. `all_variants`: fetch what tuning can choose from.

        `on_begin` is called before each start for an update.
        """
        self._program = program
        self._state = state
        self._engines = engines
        self._all_variants = all_variants
        self._holder = holder
        self._front = front
        self._own = own
        self._check = check
        self._recorder = recorder
        self._on_begin = on_begin
        self._child: Child | None = None
        self._wake = asyncio.Event()
        self._wants_keys = False
        self._pause = Backoff(first_s=1.0, most_s=300.0)
        self._refresh_pause = Backoff(first_s=2 * REFRESH_PAUSE_S, most_s=900.0)
        self._refresh_after = 0.0
        self._look_at = time.monotonic() + _spread(FIRST_LOOK_S)
        self._is_done = False

    @property
    def pid(self) -> int | None:
        """Of the updater that runs."""
        return self._child.pid if self._child else None

    def wake(self) -> None:
        """There may be something to do, or the network is there again."""
        self._pause.reset()
        self._wake.set()

    def supersede(self) -> None:
        """A newer desired document is on the disk."""
        if self._child:
            self._child.send(as_frame(Superseded()))
        self.wake()

    def want_keys(self) -> None:
        """A signature's key isn't known: look for newer ones, but not at anybody's pace."""
        if not self._wants_keys:
            self._wants_keys = True
            self._wake.set()

    def found_keys(self) -> None:
        """The keys are known."""
        self.want_no_keys()
        self._refresh_pause.reset()

    def want_no_keys(self) -> None:
        """Nothing waits for keys any more. The pace stays: acknowledgements come as a broker likes."""
        self._wants_keys = False

    async def serve(self) -> None:
        """Run the updater whenever it is needed."""
        while True:
            wait_s = await self._turn()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _turn(self) -> float:
        """Run what is due; returns how long to wait for the next turn at most, if nothing wakes it."""
        self._wake.clear()
        if self._holder.needs_updater():
            self._on_begin()
            exit_code = await self._run(is_refresh=False)
            if self._is_done:
                self._pause.reset()
            if exit_code == 0 and not self._holder.needs_updater():
                return 0.0
            if exit_code not in (0, TRY_LATER):
                self._note("updater-ended", f"the updater ended with exit code {exit_code}")
            return self._pause.next_s()
        now = time.monotonic()
        if self._wants_keys and now < self._refresh_after:
            return self._refresh_after - now
        if not self._wants_keys and now < self._look_at:
            return self._look_at - now
        self._look_at = now + _spread(LOOK_S)
        if self._wants_keys:
            self._refresh_after = now + self._refresh_pause.next_s()
        await self._run(is_refresh=True)
        return 0.0

    async def _run(self, *, is_refresh: bool) -> int | None:
        """One start of the updater, to its end; its exit code, None where it couldn't be started."""
        options = ["--state", str(self._state), "--parent", str(os.getpid())]
        options += ["--engines", *(f"{name}:{','.join(engines)}" for name, engines in self._engines.items())]
        options += ["--all-variants"] * self._all_variants
        child: Child | None = None
        self._is_done = False
        try:
            async with running(self._program, name="updater", options=options + ["--refresh"] * is_refresh) as child:
                self._child = child
                await self._converse(child)
        except* ChildEnded as errors:
            _LOG.debug("updater: %s", errors.exceptions[0])
        except* (ChildHung, ProtocolBroken) as errors:
            self._note("updater-killed", str(errors.exceptions[0]))
        finally:
            self._child = None
            self._holder.reload()
        return child.exit_code if child else None

    async def _converse(self, child: Child) -> None:
        """Answer what it asks until it ends, which is always by an exception."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_health(child))
            while True:
                message = parse_updater_message(await child.receive(timeout_s=self._holder.silence_s()))
                self._obey(message, child, tasks)

    def _obey(self, message: FromUpdater, child: Child, tasks: asyncio.TaskGroup) -> None:
        match message:
            case Progress():
                self._holder.reload()
            case Notice():
                self._note(message.name, message.detail)
            case BaselineQuestion():
                child.send(as_frame(self._front.baseline(message.release)))
            case CheckQuestion():
                tasks.create_task(self._answer_check(message, child))
            case Switch():
                self._holder.reload()
                tasks.create_task(self._answer_switch(message, child))
            case Settled():
                self._holder.reload()
                self._front.settle(message.slot)
            case KeysQuestion():
                child.send(as_frame(self._own.open(message.release)))
            case AgentQuestion():
                child.send(as_frame(self._own.health()))
            case Restart():
                self._own.restart()
            case Done():
                self._is_done = True
                _LOG.info("update ended: %s", message.state.value)

    async def _answer_check(self, question: CheckQuestion, child: Child) -> None:
        child.send(as_frame(await self._check(question.release)))

    async def _answer_switch(self, question: Switch, child: Child) -> None:
        failure = await self._front.switch(question.slot)
        serving = self._front.serving.get(question.slot)
        if failure is None and serving:
            child.send(as_frame(Serving(serving.reference)))
        else:
            child.send(as_frame(ServeFailed(failure or f"nothing is current in slot {question.slot}")))

    async def _send_health(self, child: Child) -> None:
        while True:
            await asyncio.sleep(HEALTH_PERIOD_S)
            release = self._holder.release_in_update()
            news = self._front.health_news(release) if release else None
            if news:
                child.send(as_frame(news))

    def _note(self, name: str, detail: str) -> None:
        self._recorder.note(Event(at=time.time(), name=name, detail=detail[:4000]))


def _spread(seconds: int) -> float:
    """About that long: boards that got power together don't ask the fleet together for ever."""
    return seconds * (0.75 + secrets.randbelow(501) / 1000)
