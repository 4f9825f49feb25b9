"""When does the device need another certificate, and what follows once it has one?

In time, which the present certificate says; and when brokers turn it away though they are there, which is how a board
with a wrong clock learns that its certificate has expired. The daemon goes without an HTTP client, so a program asks.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shoal_wire.messages import Event

from shoal_agent.credentials import read_lifetime
from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.recording import Recorder
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files

PROGRAM_TIMEOUT_S = 180.0
LONGEST_SLEEP_S = 3600.0
"""A board's clock may be set right by years at any moment."""
TURNED_AWAY = 3
"""So many connections in a row that end without a word from the broker may be for a certificate that has expired."""
_OK = 0
_TRY_LATER = 75

_LOG = logging.getLogger(__name__)


class CertificateKeeper:
    """Renews the device's certificate, again and again."""

    def __init__(
        self,
        program: Sequence[str],
        *,
        files: Files,
        state: Path,
        is_known: bool,
        recorder: Recorder,
        on_renewed: Callable[[], None],
    ) -> None:
        """`is_known`: the device knows where to ask after an expiry; one that doesn't renews once to learn it."""
        self._command = (*program, "--state", str(state))
        self._files = files
        self._state = state
        self._is_known = is_known
        self._recorder = recorder
        self._on_renewed = on_renewed
        self._turned_away = 0
        self._complaint = ""
        self._wake = asyncio.Event()
        self._soon = Backoff(first_s=60.0, most_s=3600.0)
        self._late = Backoff(first_s=900.0, most_s=21600.0)
        self._not_before = 0.0
        """By the monotonic clock: when the fleet may be asked again."""

    def note_connected(self) -> None:
        """The broker has let the device in."""
        self._turned_away = 0

    def note_turned_away(self) -> None:
        """A broker was there, and ended the connection before it let the device in."""
        self._turned_away += 1
        if self._turned_away == TURNED_AWAY:
            self._wake.set()

    async def serve(self) -> None:
        """Renew whenever that is due, until cancelled."""
        while True:
            wait_s = self._wait_s()
            if wait_s <= 0:
                await self._renew()
                continue
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, LONGEST_SLEEP_S)):
                    await self._wake.wait()

    def _wait_s(self) -> float:
        """Until the next renewal; at most 0 where it is due and may be tried."""
        must_wait_s = self._not_before - time.monotonic()
        if self._turned_away >= TURNED_AWAY or not self._is_known:
            return must_wait_s
        try:
            due_s = read_lifetime(self._files, self._state).due_at() - time.time()
        except StateDamaged as error:
            _LOG.error("%s", error)
            return must_wait_s
        return max(must_wait_s, due_s)

    async def _renew(self) -> None:
        exit_code, words = await self._run()
        if exit_code == _OK:
            # A broker that turns everybody away isn't mended by new certificates.
            self._not_before = time.monotonic() + (3600.0 if self._turned_away else 60.0)
            self._turned_away, self._is_known, self._complaint = 0, True, ""
            for backoff in (self._soon, self._late):
                backoff.reset()
            self._note("certificate-renewed", words)
            self._on_renewed()
            return
        backoff = self._soon if exit_code == _TRY_LATER else self._late
        wait_s = backoff.next_s()
        self._not_before = time.monotonic() + wait_s
        _LOG.warning("certificate not renewed, next try in %.0f s: %s", wait_s, words)
        if exit_code != _TRY_LATER and words != self._complaint:
            self._complaint = words
            self._note("renewal-refused", words)

    async def _run(self) -> tuple[int, str]:
        """Exit code and last words of the program; those of a failure where it can't be run."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"},
            )
        except OSError as error:
            return 1, f"{self._command[0]} can't be started: {error.strerror}"
        try:
            async with asyncio.timeout(PROGRAM_TIMEOUT_S):
                _, said = await process.communicate()
        except TimeoutError:
            return _TRY_LATER, f"no outcome within {PROGRAM_TIMEOUT_S:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        lines = said.decode(errors="replace").strip().splitlines()
        return process.returncode or 0, lines[-1] if lines else f"exit code {process.returncode}"

    def _note(self, name: str, detail: str) -> None:
        self._recorder.note(Event(at=time.time(), name=name, detail=detail[:4000]))
