"""How does a request see the rows of the projects that it may see, and no others?

In one place rather than in each query, where one would forget it: a handler behind the gate gets sessions that add the
condition to every SELECT, UPDATE and DELETE of the mapped classes. What isn't in reach isn't there. A class is limited
by its column `project`, else by its column `device_id`, else by the entry here; a class with none of them is the
whole fleet's, such as signed metadata.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from sqlalchemy import ColumnElement, Select, event, select
from sqlalchemy.orm import ORMExecuteState, Session, sessionmaker, with_loader_criteria

from shoal_fleet.access.models import ReleaseName, TokenRole, User, UserRole
from shoal_fleet.access.roles import EVERYWHERE, Reach
from shoal_fleet.database import Base, Sessions
from shoal_fleet.devices.models import Device
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.models import ApprovalPolicy, PolicyApproval, Rollout

_reach: ContextVar[Reach] = ContextVar("reach")
"""Of the request that this task, or the thread that works for it, is about."""

_Condition = Callable[[Any, Reach], ColumnElement[bool]]


def enter(reach: Reach) -> None:
    """From here on the request has this reach."""
    _reach.set(reach)


class LimitedSession(Session):
    """A session that ends at the reach of the request in which it is opened; outside of one it can't be opened."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.reach = _reach.get()
        super().__init__(*arguments, **options)


def limit(sessions: Sessions) -> Sessions:
    """Sessions of the same database that end at the reach of the request."""
    limited: type[Session] = LimitedSession
    return sessionmaker(sessions.kw["bind"], class_=limited, expire_on_commit=False)


@event.listens_for(LimitedSession, "do_orm_execute")
def _limit(state: ORMExecuteState) -> None:
    session = state.session
    assert isinstance(session, LimitedSession)
    if EVERYWHERE in session.reach or not (state.is_select or state.is_update or state.is_delete):
        return
    for mapper in Base.registry.mappers:
        condition = _condition(mapper.class_)
        if condition is not None:
            state.statement = state.statement.options(
                with_loader_criteria(mapper.class_, condition(mapper.class_, session.reach), include_aliases=True)
            )


def _condition(kind: type[Any]) -> _Condition | None:
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    columns = kind.__table__.columns
    return next((condition for column, condition in _BY_COLUMN.items() if column in columns), None)


def _by_project(kind: Any, reach: Reach) -> ColumnElement[bool]:
    return kind.project.in_(sorted(reach))  # type: ignore[no-any-return]


def _by_device(kind: Any, reach: Reach) -> ColumnElement[bool]:
    return kind.device_id.in_(_names(Device, "id", reach))  # type: ignore[no-any-return]


def _by_name(kind: Any, reach: Reach) -> ColumnElement[bool]:
    return kind.name.in_(_names(ReleaseName, "name", reach))  # type: ignore[no-any-return]


def _by_release(kind: Any, reach: Reach) -> ColumnElement[bool]:
    return kind.release.in_(_names(ReleaseName, "name", reach))  # type: ignore[no-any-return]


def _names(kind: Any, column: str, reach: Reach) -> Select[Any]:
    """On the table itself, so that the condition isn't added to the condition."""
    columns = kind.__table__.columns
    return select(columns[column]).where(columns["project"].in_(sorted(reach)))


_BY_COLUMN: Mapping[str, _Condition] = {"project": _by_project, "device_id": _by_device}
_SPECIAL: Mapping[type[Any], _Condition | None] = {
    Release: _by_name,
    Rollout: _by_release,
    ReleaseName: None,
    UserRole: None,
    TokenRole: None,
    User: None,
    # The policy of the whole fleet counts in each project.
    ApprovalPolicy: None,
    PolicyApproval: None,
}
"""Classes whose columns don't say it. Those with None are read whole by routes that check the reach themselves."""
