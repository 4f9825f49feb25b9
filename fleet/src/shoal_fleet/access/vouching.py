"""Does the identity provider still vouch for who is logged in?

A login by the provider counts for a while only (`OidcSettings.session_s`). Where the provider gave a refresh token the
fleet asks it again before that: roles follow the groups, and a login that the provider has ended ends here. Where it
gave none, or doesn't answer, the login ends by itself.

Refresh tokens are kept in memory alone. After a restart nobody can be asked for, and those logins end by themselves.
"""

import logging
import threading
from typing import NamedTuple, Protocol

from sqlalchemy import update

from shoal_fleet.access import login_sessions, users
from shoal_fleet.access.models import LoginSession, User
from shoal_fleet.access.oidc import Refresh, Vouched
from shoal_fleet.audit import service as audit
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import FleetError, ProviderDown
from shoal_fleet.times import Clock

LOOK_EVERY_S = 60.0
RECHECK_S = 780.0
"""After the provider's last word. With `LOOK_EVERY_S` and the time that a look takes, that is within 15 minutes."""
LOOK_S = 45.0
"""A look begins no further question after this: a provider that doesn't answer takes long for each."""

_log = logging.getLogger(__name__)


class Renewing(Protocol):
    """The provider, as far as it is asked again."""

    def renew(self, refresh: Refresh) -> Vouched:
        """See `oidc.Provider.renew`."""


class _Kept(NamedTuple):
    """With what the provider is asked about a session."""

    refresh: Refresh
    answered_at: float
    tried_at: float


class Vouching:
    """Begins and ends sessions by the provider's word. Threads may share it."""

    def __init__(self, sessions: Sessions, *, provider: Renewing, session_s: float, clock: Clock) -> None:
        self._sessions = sessions
        self._provider = provider
        self._session_s = session_s
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def begin(self, vouched: Vouched) -> str:
        """Begin a session of a person; returns its secret.

        Raises:
            NotAllowed: no role, or disabled here. A user who has none any more loses it here, too.
            Conflict, Refused, NotFound: see `users.take_from_provider`.
        """
        person, now = vouched.person, self._clock()
        with self._sessions() as session:
            if not person.held:
                with writing(session):
                    users.drop_from_provider(session, subject=person.subject, now=now)
            with writing(session):
                user = users.take_from_provider(
                    session, subject=person.subject, name=person.name, held=person.held, now=now
                )
                ends_at = now + self._session_s
                secret = login_sessions.begin(session, user, how="provider", now=now, vouched_until=ends_at)
        if vouched.refresh is not None:
            with self._lock:
                self._kept[login_sessions.digest(secret)] = _Kept(vouched.refresh, now, now)
        return secret

    def look(self) -> None:
        """Ask the provider about each session that it said nothing of for a while; tried longest ago first."""
        began = self._clock()
        silences = []
        for digest, refresh in self._list_due(now=began):
            if self._clock() - began > LOOK_S:
                break
            try:
                self._ask(digest, refresh)
            except ProviderDown as silence:
                silences.append(silence)
                self._keep(digest, tried_at=self._clock())
        if silences:
            _log.warning("%d logins can't be confirmed now, so that they soon end: %s", len(silences), silences[-1])

    def _list_due(self, *, now: float) -> list[tuple[str, Refresh]]:
        """Of sessions that are still there; what is kept of others goes."""
        with self._sessions() as session:
            there = set(login_sessions.list_vouched(session, now=now))
        with self._lock:
            # One that was begun since the rows were read isn't gone.
            self._kept = {
                digest: kept for digest, kept in self._kept.items() if digest in there or kept.answered_at >= now
            }
            due = [
                (kept.tried_at, digest, kept.refresh)
                for digest, kept in self._kept.items()
                if now - kept.answered_at >= min(RECHECK_S, self._session_s / 2)
            ]
        return [(digest, refresh) for _, digest, refresh in sorted(due)]

    def _ask(self, digest: str, refresh: Refresh) -> None:
        try:
            self._go_on(digest, self._provider.renew(refresh))
        except ProviderDown:
            raise
        except FleetError as refusal:
            self._end(digest, reason=str(refusal))

    def _go_on(self, digest: str, vouched: Vouched) -> None:
        person, now = vouched.person, self._clock()
        with self._sessions() as session, writing(session):
            if not person.held:
                users.drop_from_provider(session, subject=person.subject, now=now)
                return
            users.take_from_provider(session, subject=person.subject, name=person.name, held=person.held, now=now)
            session.execute(
                update(LoginSession)
                .where(LoginSession.secret_sha256 == digest)
                .values(vouched_until=now + self._session_s)
            )
        if vouched.refresh is not None:
            with self._lock:
                self._kept[digest] = _Kept(vouched.refresh, now, now)

    def _keep(self, digest: str, *, tried_at: float) -> None:
        with self._lock:
            kept = self._kept.get(digest)
            if kept is not None:
                self._kept[digest] = kept._replace(tried_at=tried_at)

    def _end(self, digest: str, *, reason: str) -> None:
        with self._lock:
            self._kept.pop(digest, None)
        with self._sessions() as session, writing(session):
            row = session.get(LoginSession, digest)
            if row is None:
                return
            name = session.get_one(User, row.user_id).name
            login_sessions.end(session, digest)
            detail, now = {"reason": reason}, self._clock()
            audit.append(session, actor=audit.FLEET, action="login.ended", subject=name, detail=detail, now=now)
