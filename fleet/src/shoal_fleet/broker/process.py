"""How does the fleet run Mosquitto as a child that comes up, stays up and never outlives it?"""

import asyncio
import contextlib
import logging
import shutil
import signal
import socket
import ssl
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.broker.errors import BrokerError, BrokerFailed, BrokerMissing
from shoal_fleet.broker.log import keep_short, put_aside, read_tail

START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 10.0
PROBE_TIMEOUT_S = 2.0
POLL_S = 0.05

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0
"""A broker that lived for so long is started anew without further delay."""

ADMINISTRATOR_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where distributions put daemons; not on everyone's PATH."""

PACKAGES = {"mosquitto": "mosquitto", "setpriv": "util-linux"}

logger = logging.getLogger(__name__)


class Broker:
    """One Mosquitto, whose files are written before it is started.

    It ends with this process, even if that is killed: the kernel sends it SIGTERM when the thread that started it ends,
    which therefore must be the main thread.
    """

    def __init__(
        self,
        paths: BrokerPaths,
        *,
        bind_address: str,
        port: int,
        start_timeout_s: float = START_TIMEOUT_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        self._paths = paths
        self._address = bind_address
        self._port = port
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._process: asyncio.subprocess.Process | None = None
        self._is_up = False
        self._must_reload = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of Mosquitto, None while there is none."""
        return None if self._process is None else self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it has answered since it was started."""
        return self._is_up

    async def start(self) -> None:
        """Start Mosquitto and wait until it answers with this fleet's certificate.

        Raises:
            BrokerMissing: a program isn't installed.
            BrokerFailed: the port is held by another program, Mosquitto ended, or it didn't answer in time.
            RuntimeError: not called from the main thread, or it runs already.
        """
        if self._process is not None:
            raise RuntimeError(f"the broker runs already, as process {self._process.pid}")
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the broker must be started from the main thread, or it would end with the other")
        command = [_find_program("setpriv", folders=ADMINISTRATOR_FOLDERS), "--pdeathsig", "TERM", find_mosquitto()]
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await self._wait_for_port()
                put_aside(self._paths.log)
                with self._paths.log.open("ab") as log:
                    self._process = await asyncio.create_subprocess_exec(
                        *command,
                        "-c",
                        str(self._paths.configuration),
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # Ctrl-C in a terminal is for the fleet, which then stops it
                    )
                await self._wait_for_answer(self._process)
        except TimeoutError:
            await self.stop()
            raise BrokerFailed(self._describe(f"no answer within {self._start_timeout_s:g} s")) from None
        except BaseException:
            await self.stop()
            raise
        self._is_up = True
        if self._must_reload:
            self.reload()

    async def supervise(self) -> None:
        """Start it again whenever it ends, with growing delays. Runs until cancelled; stops the broker then.

        Its log is begun anew whenever it has grown long.
        """
        delay_s = 0.0
        bounding = asyncio.create_task(keep_short(self._paths.log, begin_anew=self.reload))
        try:
            while True:
                lived_s = await self._wait_for_end()
                delay_s = next_delay(delay_s, lived_s=lived_s)
                await asyncio.sleep(delay_s)
                try:
                    await self.start()
                except BrokerError as error:
                    logger.error("%s", error)
        finally:
            bounding.cancel()
            await self.stop()

    def reload(self) -> None:
        """Make it read certificates, revocations and access rules again; open connections stay, under the new rules.

        A broker that is being started is told as soon as it is up; one that is down reads them when it starts.
        """
        self._must_reload = not self._is_up
        if self._is_up and self._process is not None:
            put_aside(self._paths.log)
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """End it: it saves its state first; one that takes too long is killed. Does nothing when there is none."""
        process, self._process, self._is_up = self._process, None, False
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(self._stop_timeout_s):
                await process.wait()
        except TimeoutError:
            logger.error("broker %d didn't end within %.0f s and is killed", process.pid, self._stop_timeout_s)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _wait_for_end(self) -> float:
        if self._process is None:
            return 0.0
        clock = asyncio.get_running_loop()
        started_s = clock.time()
        code = await self._process.wait()
        self._process, self._is_up = None, False
        logger.error("%s", self._describe(f"ended with code {code}"))
        return clock.time() - started_s

    async def _wait_for_port(self) -> None:
        """An earlier broker that is still saving its state holds the port for a moment."""
        try:
            async with asyncio.timeout(self._start_timeout_s / 2):
                while not self._port_is_free():  # noqa: ASYNC110 (nothing tells when a port becomes free)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise BrokerFailed(
                f"broker: port {self._port} of {self._address} is held by another program, or not of this machine"
            ) from None

    def _port_is_free(self) -> bool:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._address, self._port))
            except OSError:
                return False
        return True

    async def _wait_for_answer(self, process: asyncio.subprocess.Process) -> None:
        while not await self._answers():
            if process.returncode is not None:
                raise BrokerFailed(self._describe(f"ended with code {process.returncode}"))
            await asyncio.sleep(POLL_S)

    async def _answers(self) -> bool:
        """Whether a server with this fleet's certificate listens. Its log will say that a client came without one."""
        context = ssl.create_default_context(cafile=self._paths.authority)
        context.check_hostname = False
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._address, self._address)  # noqa: S104
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, self._port, ssl=context)
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        return True

    def _describe(self, what: str) -> str:
        return f"broker at port {self._port}: {what}; its log says:\n{read_tail(self._paths.log)}"


def find_mosquitto(*, folders: Sequence[str] = ADMINISTRATOR_FOLDERS) -> str:
    """Path of Mosquitto, found on PATH or in one of `folders`.

    Raises:
        BrokerMissing: not installed; the message names the package.
    """
    return _find_program("mosquitto", folders=folders)


def next_delay(delay_s: float, *, lived_s: float) -> float:
    """Seconds to wait before the next start, after one that waited `delay_s` and then lived for `lived_s`."""
    if lived_s >= STEADY_S:
        return FIRST_DELAY_S
    return min(max(2 * delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)


def _find_program(name: str, *, folders: Sequence[str]) -> str:
    found = shutil.which(name) or shutil.which(name, path=":".join(folders))
    if found is None:
        raise BrokerMissing(f"{name} isn't installed: apt-get install {PACKAGES[name]}")
    return found
