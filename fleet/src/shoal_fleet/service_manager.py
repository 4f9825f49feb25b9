"""How does systemd know that the server is up, and that it still answers?

The protocol of sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names. Without one nothing is sent.
"""

import asyncio
import os
import socket


def notify(state: str) -> None:
    """Tell the service manager, for example `READY=1`. Never fails: the manager may be anything."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
        except OSError:
            return


async def keep_watchdog() -> None:
    """Say twice in each period that the loop turns; returns at once where the manager doesn't watch."""
    period_s = int(os.environ.get("WATCHDOG_USEC", "0")) / 1e6
    if not period_s or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(period_s / 2)
