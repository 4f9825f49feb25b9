"""Is the service manager told what it waits for?"""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.service_manager import keep_watchdog, notify

DEADLINE_S = 60.0


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager, which this process is told of as sd_notify(3) says."""
    address = os.path.relpath(tmp_path / "notify")  # an absolute one may be longer than a socket's address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(DEADLINE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield channel


def test_state_is_told(manager: socket.socket) -> None:
    notify("READY=1")

    assert manager.recv(100) == b"READY=1"


def test_watchdog_is_fed_again_and_again(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")

    async def feed_twice() -> list[bytes]:
        feeding = asyncio.create_task(keep_watchdog())
        heard = [await asyncio.to_thread(manager.recv, 100) for _ in range(2)]
        feeding.cancel()
        return heard

    assert asyncio.run(feed_twice()) == [b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.parametrize("variable", ["NOTIFY_SOCKET", "WATCHDOG_USEC"])
def test_nothing_is_told_where_nobody_listens(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable, raising=False)

    notify("READY=1")
    asyncio.run(asyncio.wait_for(keep_watchdog(), timeout=DEADLINE_S))


def test_watchdog_of_another_process_is_not_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")

    asyncio.run(asyncio.wait_for(keep_watchdog(), timeout=DEADLINE_S))
