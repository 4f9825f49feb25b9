"""Who is asking, and may they?

A router names `Depends(gate.reader)` or `Depends(gate.admin)` among its dependencies. The token comes as bearer, or as
the password of HTTP Basic (any user name), which browsers can send.
"""

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer

from shoal_fleet.access import service
from shoal_fleet.access.models import Role
from shoal_fleet.access.service import Caller
from shoal_fleet.database import Sessions
from shoal_fleet.errors import NotAllowed, WrongRole
from shoal_fleet.times import Clock

_Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
_Basic = Annotated[HTTPBasicCredentials | None, Depends(HTTPBasic(auto_error=False))]


class Gate:
    """Lets the holders of API tokens through."""

    def __init__(self, sessions: Sessions, *, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    def reader(self, bearer: _Bearer, basic: _Basic) -> Caller:
        """Any token that counts.

        Raises:
            NotAllowed: no token, an unknown one or a revoked one.
        """
        token = bearer.credentials if bearer else basic.password if basic else None
        if token is None:
            raise NotAllowed("no API token: expected one as bearer, or as the password of HTTP Basic")
        with self._sessions() as session:
            return service.authenticate(session, token, now=self._clock())

    def admin(self, bearer: _Bearer, basic: _Basic) -> Caller:
        """A token with the role admin.

        Raises:
            NotAllowed: no token that counts.
            WrongRole: one that may only read.
        """
        caller = self.reader(bearer, basic)
        if caller.role is not Role.ADMIN:
            raise WrongRole(f"token {caller.name!r} has the role {caller.role.value}, expected admin")
        return caller
