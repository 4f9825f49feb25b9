"""When may somebody try to log in again who failed, and how slowly?

Attempts are counted in the database, so that a restart forgives nothing, and so that nobody is kept out by what others
do elsewhere:

- by address and name together, and by the address: after some that failed each must wait twice as long as the one
  before. An attempt that comes too soon is refused unseen: its password isn't looked at;
- by the name alone: that many addresses try the same name makes each attempt at it slower, but refuses none;
- a browser with which this user has logged in before is counted by itself and by nothing else, so that neither slows
  it down. That is what OWASP's "Slow down online guessing attacks with device cookies" proposes.
"""

import hashlib
import ipaddress
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.orm import Session

from shoal_fleet.access.models import LoginFailures
from shoal_fleet.errors import TooSoon

FREE_BY_PAIR = 5
"""Of one name from one address."""
FREE_BY_BROWSER = 10
FREE_BY_ADDRESS = 20
"""Behind one address there may be many people."""
FREE_BY_NAME = 20
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 900.0
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 8.0
FORGET_S = 86400.0
"""After so long without an attempt the failures are forgotten."""


class Who(NamedTuple):
    """What attempts are counted by. Neither name nor address can be read from the digests."""

    pair_sha256: str
    address_sha256: str
    name_sha256: str
    browser_sha256: str | None
    """None for a browser with which the user hasn't logged in before."""


def who_tries(*, name: str, address: str, known_browser: str | None = None) -> Who:
    """Of IPv6 the first 64 bits count: a single machine has all the rest."""
    network = _network(address)
    return Who(
        pair_sha256=_digest(f"pair {network} {name}"),
        address_sha256=_digest(f"address {network}"),
        name_sha256=_digest(f"user {name}"),
        browser_sha256=None if known_browser is None else _digest(f"browser {known_browser}"),
    )


def wait_after(failures: int, *, free: int) -> float:
    """How long after the last of so many failures the next attempt must wait, in seconds."""
    return _doubled(failures - free, first=FIRST_WAIT_S, longest=LONGEST_WAIT_S)


def delay_after(failures: int) -> float:
    """How long an attempt at a name is held up that failed so often, in seconds."""
    return _doubled(failures - FREE_BY_NAME, first=FIRST_DELAY_S, longest=LONGEST_DELAY_S)


def count_attempt(session: Session, who: Who, *, now: float) -> float:
    """Count an attempt as failed before it is looked at, in the caller's transaction: of many at once, few get in.

    Returns how long it is held up before its password is looked at, in seconds.

    Raises:
        TooSoon: it must wait, and isn't counted; says how long.
    """
    session.execute(delete(LoginFailures).where(LoginFailures.last_at < now - FORGET_S))
    if who.browser_sha256 is not None:
        by_browser = _row(session, who.browser_sha256, now=now)
        if _wait(by_browser, free=FREE_BY_BROWSER, now=now) <= 0:
            _count(by_browser, now=now)
            return 0.0
    by_pair = _row(session, who.pair_sha256, now=now)
    by_address = _row(session, who.address_sha256, now=now)
    by_name = _row(session, who.name_sha256, now=now)
    _check(max(_wait(by_pair, free=FREE_BY_PAIR, now=now), _wait(by_address, free=FREE_BY_ADDRESS, now=now)))
    delay_s = delay_after(by_name.failures)
    for row in (by_pair, by_address, by_name):
        _count(row, now=now)
    return delay_s


def forgive(session: Session, who: Who) -> None:
    """The attempt was none that failed, in the caller's transaction.

    Earlier failures of the name are forgotten, there and everywhere. Those of the address stay: who has one account
    could else try others from there for ever.
    """
    forgotten = [who.pair_sha256, who.name_sha256, who.browser_sha256]
    session.execute(delete(LoginFailures).where(LoginFailures.subject_sha256.in_(list(filter(None, forgotten)))))
    _take_back(session, who.address_sha256, attempts=1)


def count_visit(session: Session, address: str, *, now: float) -> None:
    """Count a login that goes by the identity provider, which costs the fleet a talk with it, as `count_attempt`.

    Raises:
        TooSoon: from that address too many were begun and not finished.
    """
    row = _row(session, _visitor(address), now=now)
    _check(_wait(row, free=FREE_BY_ADDRESS, now=now))
    _count(row, now=now)


def forgive_visit(session: Session, address: str) -> None:
    """The provider vouched for the person: both steps are forgiven, in the caller's transaction."""
    _take_back(session, _visitor(address), attempts=2)


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed  # what a listener of IPv6 sees of a client of IPv4
    return str(ipaddress.ip_network((parsed, 64 if parsed.version == 6 else 32), strict=False))


def _visitor(address: str) -> str:
    return _digest(f"provider {_network(address)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _doubled(above: int, *, first: float, longest: float) -> float:
    return 0.0 if above < 0 else min(longest, first * 2.0 ** min(above, 32))


def _check(wait_s: float) -> None:
    if wait_s > 0:
        raise TooSoon(f"login: too many attempts failed; try again in {wait_s:.0f} s", wait_s=wait_s)


def _count(row: LoginFailures, *, now: float) -> None:
    row.failures += 1
    row.last_at = now


def _take_back(session: Session, subject: str, *, attempts: int) -> None:
    row = session.get(LoginFailures, subject)
    if row is not None:
        row.failures = max(0, row.failures - attempts)


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
