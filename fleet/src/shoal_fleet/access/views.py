"""What does the API take and say of projects, users and tokens?"""

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from shoal_fleet.access.models import Project
from shoal_fleet.access.passwords import MAX_PASSWORD_CHARACTERS
from shoal_fleet.access.roles import NAME, PROJECT, Held, Role
from shoal_fleet.access.service import ListedToken
from shoal_fleet.access.users import ListedUser

Name = Annotated[str, Field(pattern=f"^{NAME}$")]
ProjectName = Annotated[str, Field(pattern=f"^{PROJECT}$")]
AnyProject = Annotated[str, Field(pattern=rf"^({PROJECT}|\*)$", description="a project, or * for all")]
Password = Annotated[SecretStr, Field(max_length=4 * MAX_PASSWORD_CHARACTERS)]


class RoleBody(BaseModel):
    """A role in one project, or in all of them."""

    model_config = ConfigDict(extra="forbid")

    project: AnyProject
    role: Role


class NewProject(BaseModel):
    """A project that is to be made."""

    model_config = ConfigDict(extra="forbid")

    name: ProjectName


class ProjectChoice(BaseModel):
    """To which project something is to belong."""

    model_config = ConfigDict(extra="forbid")

    project: ProjectName


class NewUser(BaseModel):
    """A user who is to be made."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    password: Password
    roles: Annotated[list[RoleBody], Field(max_length=256)]


class NewPassword(BaseModel):
    """Another password."""

    model_config = ConfigDict(extra="forbid")

    password: Password


class NewRoles(BaseModel):
    """All roles that a user is to have."""

    model_config = ConfigDict(extra="forbid")

    roles: Annotated[list[RoleBody], Field(max_length=256)]


class NewApiToken(BaseModel):
    """A token that is to be made; without `ttl_s` it counts until it is revoked, or the one that makes it ends."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    project: AnyProject
    roles: Annotated[list[Role], Field(min_length=1, max_length=8)]
    ttl_s: Annotated[int, Field(ge=1, le=10 * 366 * 86400)] | None = None


class ProjectView(BaseModel):
    """A project. Times are Unix seconds by the fleet's clock."""

    name: str
    created_at: float

    @classmethod
    def of(cls, project: Project) -> Self:
        """View of a row."""
        return cls.model_validate(project, from_attributes=True)


class UserView(BaseModel):
    """A user. Times are Unix seconds by the fleet's clock."""

    name: str
    roles: list[RoleBody]
    is_from_provider: bool
    """An identity provider vouches for them; they have no password here."""
    created_at: float
    disabled_at: float | None

    @classmethod
    def of(cls, user: ListedUser) -> Self:
        """View of a user."""
        return cls(
            name=user.row.name,
            roles=_roles(user.held),
            is_from_provider=user.row.subject is not None,
            created_at=user.row.created_at,
            disabled_at=user.row.disabled_at,
        )


class ApiTokenView(BaseModel):
    """A token, without its secret. Times are Unix seconds by the fleet's clock."""

    name: str
    roles: list[RoleBody]
    created_at: float
    last_used_at: float | None
    """To the minute."""
    expires_at: float | None
    made_by: str
    """As the audit log names them; empty where it isn't known any more."""

    @classmethod
    def of(cls, token: ListedToken) -> Self:
        """View of a token."""
        return cls(
            name=token.row.name,
            roles=_roles(token.held),
            created_at=token.row.created_at,
            last_used_at=token.row.last_used_at,
            expires_at=token.row.expires_at,
            made_by=token.row.made_by,
        )


class MadeToken(BaseModel):
    """A token, which can be read this once."""

    name: str
    token: str
    expires_at: float | None


def to_held(roles: Iterable[RoleBody]) -> list[Held]:
    """The same as the rules have it."""
    return [Held(one.project, one.role) for one in roles]


def _roles(held: Iterable[Held]) -> list[RoleBody]:
    return [RoleBody(project=one.project, role=one.role) for one in held]
