"""Which signatures end soon, or were dated by a wrong clock, so that somebody must act?

The fleet renews its own; root, targets and bins only the publisher can. Past their expiry devices install nothing new.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session
from tuf.api.metadata import Metadata

from shoal_fleet.trust import service
from shoal_fleet.trust.models import RoleMetadata

NEAR_S = {"root": 60 * 86_400.0}
"""How long before its end a signature counts as near it, by role."""
OTHERS_NEAR_S = 30 * 86_400.0
SAY_AGAIN_S = 86_400.0
"""Between two lines of the log."""

_log = logging.getLogger(__name__)


class Ending(NamedTuple):
    """Metadata that ends soon, or has ended."""

    role: str
    """`bins` stands for all of them: the first that ends."""
    version: int
    expires_at: float
    is_expired: bool


class ExpiryWatch:
    """Knows that, and says it in the log once a day."""

    def __init__(self) -> None:
        self._said_at = float("-inf")
        self._found: Sequence[str] = ()

    def look(self, session: Session, *, now: float) -> None:
        """Look, and say it."""
        endings = [describe(ending) for ending in list_ending(session, now=now)]
        self._found = [*endings, *filter(None, [service.find_trouble(session, now=now)])]
        if now - self._said_at < SAY_AGAIN_S:
            return
        for words in self._found:
            self._said_at = now
            _log.warning("%s", words)

    def find_trouble(self) -> Sequence[str]:
        """What the last look found, in words."""
        return self._found


def list_ending(session: Session, *, now: float) -> Sequence[Ending]:
    """What ends soon, the first first."""
    found = []
    for role, (version, expires_at) in list_expiries(session).items():
        if expires_at - now < NEAR_S.get(role, OTHERS_NEAR_S):
            found.append(Ending(role, version, expires_at, expires_at <= now))
    return sorted(found, key=lambda ending: ending.expires_at)


def list_expiries(session: Session) -> dict[str, tuple[int, float]]:
    """Version and expiry of root, targets and the bin that ends first (`bins`)."""
    newest = select(RoleMetadata.role, func.max(RoleMetadata.version).label("version")).group_by(RoleMetadata.role)
    last = newest.subquery()
    rows = session.scalars(
        select(RoleMetadata)
        .join(last, (RoleMetadata.role == last.c.role) & (RoleMetadata.version == last.c.version))
        .where(RoleMetadata.role.not_in(("snapshot", "timestamp")))
    )
    found: dict[str, tuple[int, float]] = {}
    for row in rows:
        role = "bins" if row.role.startswith("bins-") else row.role
        expires_at = Metadata.from_bytes(row.raw).signed.expires.timestamp()
        if role not in found or expires_at < found[role][1]:
            found[role] = (row.version, expires_at)
    return found


def describe(ending: Ending) -> str:
    """A sentence for the log and for warnings."""
    when = f"{datetime.fromtimestamp(ending.expires_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if ending.is_expired:
        return f"{ending.role} metadata expired at {when}: boards install nothing new until `shoal keys refresh` is run"
    return f"{ending.role} metadata ends at {when}, after which boards install nothing new: run `shoal keys refresh`"
