"""Who is asking, and may they?

A router names `Depends(gate.viewer)`, `gate.operator`, `gate.releaser`, `gate.admin` or `gate.fleet_admin` among its
dependencies. Who asks shows an API token, as bearer or as the password of HTTP Basic (any user name), or is logged in
with a browser and has its cookie. A handler that wants to know takes an argument of the type `Asking`.

A route acts in the projects in which the caller has the role that it asks for: what a handler gets from the gate's
`sessions` ends there (`scope.py`).
"""

from typing import Annotated, NamedTuple
from urllib.parse import parse_qs

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from starlette.datastructures import Headers

from shoal_fleet.access import login_sessions, service
from shoal_fleet.access.csrf import FIELD, HEADER, Provenance, check_origin, check_provenance
from shoal_fleet.access.roles import EVERYWHERE, USER, Held, Known, Reach, Role, reach
from shoal_fleet.access.scope import enter, limit
from shoal_fleet.audit.recorder import READING, AuditRecorder, note_request
from shoal_fleet.database import Sessions
from shoal_fleet.errors import LoginNeeded, NotAllowed, TooLarge, WrongRole
from shoal_fleet.times import Clock

_Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
_Basic = Annotated[HTTPBasicCredentials | None, Depends(HTTPBasic(auto_error=False))]

COOKIE = "__Host-shoal"
"""Cookie of a session. The prefix makes browsers refuse it without Secure, with a domain or with another path."""

MAX_FORM_BYTES = 16 << 10
_FORM = "application/x-www-form-urlencoded"


class Caller(NamedTuple):
    """Who asks, and where they may do what they ask for."""

    actor: str
    """As the audit log names them: `user:anna` or `token:ci`."""
    held: frozenset[Held]
    reach: Reach
    """The projects in which they have the role that the route asks for."""
    person: str
    """Who answers for what they do (`roles.Known`)."""
    ends_at: float | None
    """When their token ends."""


async def read_caller(request: Request) -> Caller:
    """The caller whom the gate let through. A route without a gate has none, and fails."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


Asking = Annotated[Caller, Depends(read_caller)]
"""Type of a handler's argument that is to be the caller."""


class Gate:
    """Lets those through who may."""

    def __init__(self, sessions: Sessions, *, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self.sessions = limit(sessions)
        """For handlers behind this gate: they see and change rows of the caller's reach only."""
        self.recorder = AuditRecorder(sessions, clock=clock)
        """Notes every request that is let in and may change something."""

    async def viewer(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may read.

        Raises:
            NotAllowed: nobody who is known.
            WrongRole: who has the role nowhere.
            CrossSite: a cookie that another site made the browser send.
        """
        return await self._admit(request, bearer, basic, needed=Role.VIEWER)

    async def fleet_viewer(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may read in every project: for numbers over all of them. Raises as `viewer`."""
        return await self._admit(request, bearer, basic, needed=Role.VIEWER, is_everywhere=True)

    async def operator(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may change devices, enrolment and rollouts. Raises as `viewer`."""
        return await self._admit(request, bearer, basic, needed=Role.OPERATOR)

    async def releaser(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may bring in releases and signed metadata. Raises as `viewer`."""
        return await self._admit(request, bearer, basic, needed=Role.RELEASER)

    async def admin(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may say who else may, in a project at least. Raises as `viewer`."""
        return await self._admit(request, bearer, basic, needed=Role.ADMIN)

    async def fleet_admin(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may do so in every project: for what belongs to none. Raises as `viewer`."""
        return await self._admit(request, bearer, basic, needed=Role.ADMIN, is_everywhere=True)

    async def page(self, request: Request, bearer: _Bearer, basic: _Basic) -> Caller:
        """Who may read, for pages: whoever isn't known is sent to log in.

        Raises:
            LoginNeeded: nobody who is known.
            WrongRole: who has the role nowhere.
        """
        try:
            return await self._admit(request, bearer, basic, needed=Role.VIEWER)
        except (WrongRole, LoginNeeded):
            raise
        except NotAllowed as error:
            raise LoginNeeded(str(error)) from None

    async def _admit(
        self,
        request: Request,
        bearer: HTTPAuthorizationCredentials | None,
        basic: HTTPBasicCredentials | None,
        *,
        needed: Role,
        is_everywhere: bool = False,
    ) -> Caller:
        token = bearer.credentials if bearer else basic.password if basic else None
        if token is not None:
            if bearer is None and request.method not in READING and is_from_browser(request.headers):
                check_origin(await read_provenance(request))  # a browser sends HTTP Basic along whoever made it ask
            known = await run_in_threadpool(self._recognise_token, token)
        else:
            known = await self._recognise_cookie(request)
        actor, held = known.actor, known.held
        reached = reach(held, needed)
        if not reached or (is_everywhere and EVERYWHERE not in reached):
            where = " of every project" if is_everywhere else ""
            found = ", ".join(sorted(str(one) for one in held)) or "no role"
            if known.person.startswith(USER) and known.person != actor:
                found += f"; a token holds no more than its maker, {known.person}, does now"
            raise WrongRole(f"{actor}: expected the role {needed.value}{where}, found {found}")
        caller = Caller(actor, held, reached, known.person, known.ends_at)
        request.state.caller = caller
        enter(reached)
        await run_in_threadpool(note_request, self.recorder, request, actor=actor)
        return caller

    def _recognise_token(self, token: str) -> Known:
        with self._sessions() as session:
            return service.authenticate(session, token, now=self._clock())

    async def _recognise_cookie(self, request: Request) -> Known:
        secret = request.cookies.get(COOKIE)
        if secret is None:
            raise NotAllowed("no API token: expected one as bearer, or as the password of HTTP Basic")
        if request.method not in READING:
            check_provenance(await read_provenance(request), secret=secret)
        return await run_in_threadpool(self._recognise_session, secret)

    def _recognise_session(self, secret: str) -> Known:
        with self._sessions() as session:
            return login_sessions.recognise(session, secret, now=self._clock())


def is_from_browser(headers: Headers) -> bool:
    """Whether a request says what page it comes from, as those of browsers do."""
    return "Sec-Fetch-Site" in headers or "Origin" in headers


async def read_provenance(request: Request) -> Provenance:
    """What a request says of where it comes from."""
    headers = request.headers
    word = headers.get(HEADER)
    if word is None and headers.get("Content-Type", "").partition(";")[0].strip() == _FORM:
        word = (await read_form(request)).get(FIELD)
    return Provenance(
        fetch_site=headers.get("Sec-Fetch-Site"), origin=headers.get("Origin"), host=headers.get("Host"), word=word
    )


async def read_form(request: Request) -> dict[str, str]:
    """Fields of a form, the last of those that come twice. The body stays readable.

    Raises:
        TooLarge: longer than any form of these pages, or of a length that isn't told beforehand.
    """
    length = request.headers.get("Content-Length", "")
    if not length.isdecimal() or int(length) > MAX_FORM_BYTES:
        raise TooLarge(
            f"form: expected at most {MAX_FORM_BYTES} bytes, and to be told how many, found {length or None}"
        )
    body = (await request.body()).decode("utf-8", errors="replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}
