"""How is what the broker says kept, without filling the disk?

Where the fleet runs the broker, in two files: Mosquitto writes one, and the one before it is kept. A broker that is a
service of its own writes none: its words are the journal's.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

MAX_LOG_BYTES = 10 << 20
CHECK_S = 60.0
TAIL_LINES = 8


async def keep_short(log: Path, *, begin_anew: Callable[[], None], check_s: float = CHECK_S) -> None:
    """Call `begin_anew` each time that the log is found too long, until cancelled.

    Between two looks it may grow beyond that: a broker tells of each connection that comes and goes.
    """
    while True:
        if is_long(log):
            begin_anew()
        await asyncio.sleep(check_s)


def is_long(log: Path) -> bool:
    """Whether another one should be begun."""
    try:
        return log.stat().st_size > MAX_LOG_BYTES
    except OSError:
        return False


def put_aside(log: Path) -> None:
    """Keep a long log as the one before, in place of what was kept; does nothing with a short one.

    Mosquitto goes on with the file that was renamed until it is told to open its log again, by SIGHUP.
    """
    if is_long(log):
        log.rename(log.with_suffix(".log.1"))


def read_tail(log: Path) -> str:
    """The last lines of a log, or a word that there is none."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-TAIL_LINES:]) or "(empty log)"
