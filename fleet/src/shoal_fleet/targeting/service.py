"""Which devices does an expression mean?"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from shoal_wire.expression.checking import Checked, check
from shoal_wire.expression.errors import WrongExpression
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Refused
from shoal_fleet.targeting.fields import DEVICE
from shoal_fleet.targeting.sql import to_sql

Found = TypeVar("Found")

MAY_BE_UPDATED = (Device.revoked_at.is_(None), Device.held_at.is_(None))
"""Of devices that an operator may give something new."""


def check_text(text: str) -> Checked:
    """The condition that a text is.

    Raises:
        Refused: it isn't one; draws where the mistake is.
    """
    try:
        return check(text, DEVICE)
    except WrongExpression as error:
        raise Refused(f"expression: {error}") from None


def find_matching(session: Session, text: str, *, project: str, now: float) -> Sequence[Device]:
    """The devices of a project that an expression means and that may be given something new, by name.

    Raises:
        Refused: as `check_text`.
    """
    condition = to_sql(check_text(text), now=now)
    wanted = (
        select(Device).where(Device.project == project, *MAY_BE_UPDATED, condition).order_by(Device.name, Device.id)
    )
    return _run(lambda: session.scalars(wanted).all(), text)


def list_matching(session: Session, text: str, *, now: float) -> Sequence[Device]:
    """The devices that an expression means, revoked ones last.

    Raises:
        Refused: as `check_text`.
    """
    condition = to_sql(check_text(text), now=now)
    order = (Device.revoked_at.is_not(None), Device.name, Device.id)
    return _run(lambda: session.scalars(select(Device).where(condition).order_by(*order)).all(), text)


def select_matching(session: Session, text: str, *, now: float) -> frozenset[str]:
    """Ids of all devices that an expression means.

    Raises:
        Refused: as `check_text`.
    """
    condition = to_sql(check_text(text), now=now)
    return frozenset(_run(lambda: session.scalars(select(Device.id).where(condition)).all(), text))


def matches(session: Session, text: str, device: Device, *, now: float) -> bool:
    """Whether an expression means a device.

    Raises:
        Refused: as `check_text`.
    """
    condition = to_sql(check_text(text), now=now)
    found = select(Device.id).where(Device.id == device.id, condition)
    return _run(lambda: session.scalar(found), text) is not None


def _run(query: Callable[[], Found], text: str) -> Found:
    """PostgreSQL refuses to compute numbers that are too large, where SQLite has none."""
    try:
        return query()
    except DBAPIError as error:
        raise Refused(f"expression {text[:200]!r}: can't be computed: {error.orig}") from None
