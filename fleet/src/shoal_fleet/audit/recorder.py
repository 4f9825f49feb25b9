"""How does every request that changes something get into the audit log, whatever its handler does?

The gate notes who asks before the handler runs, in a transaction of its own: the entry stays when the handler fails.
The outcome follows as an entry of its own, before the answer leaves.
"""

import logging
from typing import NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal_fleet.audit import service
from shoal_fleet.database import Sessions, writing
from shoal_fleet.times import Clock

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""

_NOTED = "audit_noted"

_log = logging.getLogger(__name__)


class Noted(NamedTuple):
    """A request that the log knows."""

    sequence: int
    actor: str
    request: str
    """Method and path."""


class Recorder(Protocol):
    """Notes requests and their outcomes."""

    def asked(self, *, actor: str, method: str, path: str) -> Noted:
        """A request that was let in, before its handler runs; on disk when this returns."""

    def answered(self, noted: Noted, *, status: int) -> None:
        """With which status it was answered."""


class AuditRecorder:
    """Notes them in the audit log."""

    def __init__(self, sessions: Sessions, *, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    def asked(self, *, actor: str, method: str, path: str) -> Noted:
        """Add `api.asked`."""
        request = f"{method} {path}"
        with self._sessions() as session, writing(session):
            service.append(session, actor=actor, action="api.asked", subject=request, detail={}, now=self._clock())
            return Noted(service.find_head(session).sequence, actor, request)

    def answered(self, noted: Noted, *, status: int) -> None:
        """Add `api.answered`, which names the entry that it belongs to."""
        with self._sessions() as session, writing(session):
            service.append(
                session,
                actor=noted.actor,
                action="api.answered",
                subject=noted.request,
                detail={"asked": noted.sequence, "status": status},
                now=self._clock(),
            )


def note_request(recorder: Recorder, connection: HTTPConnection, *, actor: str) -> None:
    """Note a request that the gate lets in, once, if it is of a method that may change something."""
    method = str(connection.scope["method"])
    state = connection.scope.setdefault("state", {})
    if method in READING or _NOTED in state:
        return
    state[_NOTED] = recorder.asked(actor=actor, method=method, path=str(connection.scope["path"]))


class OutcomeRecording:
    """Notes how the requests that were noted ended; wraps the whole application."""

    def __init__(self, app: ASGIApp, *, recorder: Recorder) -> None:
        self._app = app
        self._recorder = recorder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the outcome is noted before the answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def note(message: Message) -> None:
            noted = state.get(_NOTED)
            if message["type"] == "http.response.start" and noted is not None:
                await self._note(noted, status=message["status"])
            await send(message)

        await self._app(scope, receive, note)

    async def _note(self, noted: Noted, *, status: int) -> None:
        try:
            await run_in_threadpool(self._recorder.answered, noted, status=status)
        except Exception:
            # What was asked for has happened: the answer must not tell otherwise. The log shows a question without one.
            _log.exception("audit log: the outcome of entry %d (status %d) was not noted", noted.sequence, status)
