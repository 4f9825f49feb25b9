"""Which paths of the API say who may use the fleet?"""

from fastapi import APIRouter, Depends

from shoal_fleet.access import projects, service, users
from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.roles import check_within
from shoal_fleet.access.users import ListedUser
from shoal_fleet.access.views import (
    ApiTokenView,
    MadeToken,
    NewApiToken,
    NewPassword,
    NewProject,
    NewRoles,
    NewUser,
    ProjectView,
    UserView,
    to_held,
)
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.times import Clock


class AccessRoutes:
    """Handlers. They look at the caller's reach themselves, and get sessions without a limit."""

    def __init__(self, *, sessions: Sessions, clock: Clock, passwords: Passwords) -> None:
        self._sessions = sessions
        self._clock = clock
        self._passwords = passwords

    def list_projects(self, caller: Asking) -> list[ProjectView]:
        """The projects in which the caller has a role."""
        with self._sessions() as session:
            return [ProjectView.of(project) for project in projects.list_projects(session, within=caller.reach)]

    def create_project(self, body: NewProject, caller: Asking) -> ProjectView:
        """Make a project."""
        with self._sessions() as session:
            made = projects.create_project(session, body.name, now=self._clock(), actor=caller.actor)
        return ProjectView.of(made)

    def list_users(self) -> list[UserView]:
        """All users, disabled ones last."""
        with self._sessions() as session:
            return [UserView.of(user) for user in users.list_users(session)]

    def add_user(self, body: NewUser, caller: Asking) -> UserView:
        """Make a user."""
        with self._sessions() as session:
            users.add_user(
                session,
                name=body.name,
                password=body.password.get_secret_value(),
                held=to_held(body.roles),
                passwords=self._passwords,
                actor=caller.actor,
                now=self._clock(),
            )
        return self._show_user(body.name)

    def set_password(self, name: str, body: NewPassword, caller: Asking) -> UserView:
        """Give a user another password. They must log in again."""
        with self._sessions() as session:
            users.set_password(
                session,
                name,
                body.password.get_secret_value(),
                passwords=self._passwords,
                actor=caller.actor,
                now=self._clock(),
            )
        return self._show_user(name)

    def set_roles(self, name: str, body: NewRoles, caller: Asking) -> UserView:
        """Give a user these roles and no others. They must log in again, and tokens that they made hold no more."""
        with self._sessions() as session:
            users.set_roles(session, name, to_held(body.roles), actor=caller.actor, now=self._clock())
        return self._show_user(name)

    def disable_user(self, name: str, caller: Asking) -> UserView:
        """Keep a user out, at once, and the tokens that they made."""
        return self._set_disabled(name, caller.actor, is_disabled=True)

    def enable_user(self, name: str, caller: Asking) -> UserView:
        """Let a user in again, and the tokens that they made."""
        return self._set_disabled(name, caller.actor, is_disabled=False)

    def list_tokens(self, caller: Asking) -> list[ApiTokenView]:
        """The API tokens in use that reach no project but the caller's."""
        with self._sessions() as session:
            return [ApiTokenView.of(token) for token in service.list_tokens(session, within=caller.reach)]

    def create_token(self, body: NewApiToken, caller: Asking) -> MadeToken:
        """Make an API token. Its secret is in this answer and nowhere else.

        One that a token makes ends no later than that one.
        """
        check_within(body.project, caller.reach)
        now = self._clock()
        wanted = None if body.ttl_s is None else now + body.ttl_s
        expires_at = service.choose_end(wanted, parent=caller.ends_at)
        with self._sessions() as session:
            token = service.create_token(
                session,
                name=body.name,
                roles=body.roles,
                project=body.project,
                expires_at=expires_at,
                actor=caller.actor,
                person=caller.person,
                now=now,
            )
        return MadeToken(name=body.name, token=token, expires_at=expires_at)

    def revoke_token(self, name: str, caller: Asking) -> dict[str, str]:
        """Take an API token back, at once."""
        with self._sessions() as session:
            service.revoke_token(session, name, now=self._clock(), within=caller.reach, actor=caller.actor)
        return {"name": name}

    def _set_disabled(self, name: str, actor: str, *, is_disabled: bool) -> UserView:
        with self._sessions() as session:
            users.set_disabled(session, name, is_disabled=is_disabled, actor=actor, now=self._clock())
        return self._show_user(name)

    def _show_user(self, name: str) -> UserView:
        with self._sessions() as session:
            user = users.find_user(session, name)
            return UserView.of(ListedUser(user, users.list_roles(session, user)))


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, passwords: Passwords) -> APIRouter:
    """Routes of `/api/v1/projects`, `/api/v1/users` and `/api/v1/tokens`."""
    routes = AccessRoutes(sessions=sessions, clock=clock, passwords=passwords)
    router = APIRouter(prefix="/api/v1", tags=["access"], responses=ERRORS)
    viewer, admin, fleet_admin = ([Depends(role)] for role in (gate.viewer, gate.admin, gate.fleet_admin))
    router.add_api_route("/projects", routes.list_projects, methods=["GET"], dependencies=viewer)
    router.add_api_route(
        "/projects", routes.create_project, methods=["POST"], status_code=201, dependencies=fleet_admin
    )
    router.add_api_route("/users", routes.list_users, methods=["GET"], dependencies=fleet_admin)
    router.add_api_route("/users", routes.add_user, methods=["POST"], status_code=201, dependencies=fleet_admin)
    for last, handler in (
        ("password", routes.set_password),
        ("roles", routes.set_roles),
        ("disable", routes.disable_user),
        ("enable", routes.enable_user),
    ):
        router.add_api_route(f"/users/{{name}}/{last}", handler, methods=["POST"], dependencies=fleet_admin)
    router.add_api_route("/tokens", routes.list_tokens, methods=["GET"], dependencies=admin)
    router.add_api_route("/tokens", routes.create_token, methods=["POST"], status_code=201, dependencies=admin)
    router.add_api_route("/tokens/{name}/revoke", routes.revoke_token, methods=["POST"], dependencies=admin)
    return router
