"""When may somebody try to log in again who failed?

Attempts are counted by the user's name and by the address that asks, in the database, so that a restart forgives
nothing. After some that failed each one must wait twice as long as the one before. An attempt that comes too soon is
refused unseen: its password isn't looked at.
"""

import hashlib
import ipaddress
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.orm import Session

from shoal_fleet.access.models import LoginFailures
from shoal_fleet.errors import TooSoon

FREE_BY_NAME = 5
FREE_BY_ADDRESS = 20
"""Behind one address there may be many people."""
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 900.0
FORGET_S = 86400.0
"""After so long without an attempt the failures are forgotten."""


class Who(NamedTuple):
    """What attempts are counted by. Neither name nor address can be read from the digests."""

    name_sha256: str
    address_sha256: str


def who_tries(*, name: str, address: str) -> Who:
    """Of IPv6 the first 64 bits count: a single machine has all the rest."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        network = address
    else:
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed  # what a listener of IPv6 sees of a client of IPv4
        network = str(ipaddress.ip_network((parsed, 64 if parsed.version == 6 else 32), strict=False))
    return Who(*(hashlib.sha256(text.encode()).hexdigest() for text in (f"user {name}", f"address {network}")))


def wait_after(failures: int, *, free: int) -> float:
    """How long after the last of so many failures the next attempt must wait, in seconds."""
    if failures < free:
        return 0.0
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - free, 32))


def count_attempt(session: Session, who: Who, *, now: float) -> None:
    """Count an attempt as failed before it is looked at, in the caller's transaction: of many at once, few get in.

    Raises:
        TooSoon: it must wait, and isn't counted; says how long.
    """
    session.execute(delete(LoginFailures).where(LoginFailures.last_at < now - FORGET_S))
    by_name = _row(session, who.name_sha256, now=now)
    by_address = _row(session, who.address_sha256, now=now)
    wait_s = max(_wait(by_name, free=FREE_BY_NAME, now=now), _wait(by_address, free=FREE_BY_ADDRESS, now=now))
    if wait_s > 0:
        raise TooSoon(f"login: too many attempts failed; try again in {wait_s:.0f} s", wait_s=wait_s)
    for row in (by_name, by_address):
        row.failures += 1
        row.last_at = now


def forgive(session: Session, who: Who) -> None:
    """The attempt was none that failed, in the caller's transaction.

    The name's earlier failures are forgotten. Those of the address stay: who has one account could else try others
    from there for ever.
    """
    session.execute(delete(LoginFailures).where(LoginFailures.subject_sha256 == who.name_sha256))
    row = session.get(LoginFailures, who.address_sha256)
    if row is not None:
        row.failures = max(0, row.failures - 1)


def _wait(row: LoginFailures, *, free: int, now: float) -> float:
    """Never more than the whole wait, also where the clock was set back."""
    whole_s = wait_after(row.failures, free=free)
    return min(whole_s, row.last_at + whole_s - now)


def _row(session: Session, subject: str, *, now: float) -> LoginFailures:
    row = session.get(LoginFailures, subject)
    if row is None:
        row = LoginFailures(subject_sha256=subject, failures=0, last_at=now)
        session.add(row)
    return row
