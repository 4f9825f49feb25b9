"""How does the daemon run another program, and how does that program end?

A child gets one end of a socket pair as descriptor `--fd` and ends when the channel does. It is started from the main
thread, which lives as long as the daemon: the kernel's signal for a parent's death is that of the parent's thread.
Nothing is adopted: a child that outlived its daemon would be another daemon's only by luck.
"""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal_worker.channel import Channel, ChannelClosed, ChannelError, ChannelTimeout

_LOG = logging.getLogger(__name__)
_SEND_TIMEOUT_S = 2.0
_HELLO_TIMEOUT_S = 60.0
_EXIT_GRACE_S = 5.0
_POLL_S = 0.02
_OWN_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID")


class ChildEnded(Exception):
    """The program ended, or its channel broke. It is gone when `running` is left."""


class ChildHung(Exception):
    """The program said nothing for longer than it may."""


class Programs(NamedTuple):
    """Command lines of the programs that the daemon runs, without their options."""

    updater: tuple[str, ...] = (sys.executable, "-P", "-m", "shoal_agent.updater")
    front: tuple[str, ...] = (sys.executable, "-P", "-m", "shoal_agent.front")
    tuning: tuple[str, ...] = (sys.executable, "-P", "-m", "shoal_agent.tuning")
    renewal: tuple[str, ...] = (sys.executable, "-P", "-m", "shoal_agent.renewal")


class Child:
    """A program that runs. `exit_code` is known once `running` is left."""

    def __init__(self, process: subprocess.Popen[bytes], *, channel: Channel, name: str) -> None:
        """Use `running`."""
        self.name = name
        self.pid = process.pid
        self._process = process
        self._channel = channel

    @property
    def exit_code(self) -> int | None:
        """As the kernel reports it: below 0 for a signal; None while it runs."""
        return self._process.returncode

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. A child that has ended, or takes nothing, is noticed by `receive`."""
        try:
            self._channel.send(message, timeout_s=_SEND_TIMEOUT_S)
        except ChannelClosed as error:
            _LOG.debug("%s %d: %s", self.name, self.pid, error)

    def terminate(self) -> None:
        """Have it end now; `receive` notices."""
        self._process.terminate()

    async def receive(self, *, timeout_s: float | None) -> dict[str, Any]:
        """The next message.

        Raises:
            ChildEnded: there will be none.
            ChildHung: none came in time.
        """
        await asyncio.sleep(0)  # a child that floods the channel doesn't stop the daemon's other work
        try:
            async with asyncio.timeout(timeout_s):
                return await self._receive()
        except TimeoutError:
            raise ChildHung(f"{self.name} {self.pid} said nothing for {timeout_s:.0f} s") from None
        except ChannelError as error:
            raise ChildEnded(f"{self.name} {self.pid}: {error}") from None

    async def _receive(self) -> dict[str, Any]:
        while True:
            try:
                message, descriptors = self._channel.receive(0)
            except ChannelTimeout:
                await self._wait_readable()
                continue
            for descriptor in descriptors:
                os.close(descriptor)
            return message

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()
        descriptor = self._channel.fileno()
        if descriptor < 0:
            raise ChannelClosed("the channel was closed on this side")
        loop.add_reader(descriptor, _settle, readable)
        try:
            await readable
        finally:
            loop.remove_reader(descriptor)


@contextlib.asynccontextmanager
async def running(command: Sequence[str], *, name: str, options: Sequence[str] = ()) -> AsyncIterator[Child]:
    """Run a program, hellos exchanged. When this is left, in whatever way, the program has ended and was reaped.

    Raises:
        ChildEnded: it can't be started, or ended before it said hello.
    """
    process, channel = _spawn(command, options=options)
    child = Child(process, channel=channel, name=name)
    _LOG.debug("%s %d started", name, process.pid)
    try:
        await _greet(channel, name=name)
        yield child
    finally:
        channel.close()
        await _end(process)
        _LOG.info("%s %d ended with %d", name, process.pid, process.returncode)


def _settle(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _spawn(command: Sequence[str], *, options: Sequence[str]) -> tuple[subprocess.Popen[bytes], Channel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = theirs.fileno()
    with theirs:
        try:
            process = subprocess.Popen(
                [*command, "--fd", str(descriptor), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                env={name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES},
            )
        except OSError as error:
            ours.close()
            raise ChildEnded(f"{command[0]} can't be started: {error.strerror}") from error
    return process, Channel(ours)


async def _greet(channel: Channel, *, name: str) -> None:
    """In a thread, because the other side says hello only once its interpreter is up."""
    try:
        await asyncio.to_thread(channel.greet, role="daemon", timeout_s=_HELLO_TIMEOUT_S)
    except ChannelError as error:
        raise ChildEnded(f"{name} didn't say hello: {error}") from None


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end that the closed channel brings; force it on one that stays."""
    deadline = time.monotonic() + _EXIT_GRACE_S
    try:
        while process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 (Linux 4.9 has no pidfd)
            await asyncio.sleep(_POLL_S)
    finally:
        if process.poll() is None:
            _LOG.warning("process %d didn't end with its channel and was killed", process.pid)
            process.kill()
            process.wait()
