"""How does an expression about devices become one condition of SQL?

With the rules of `shoal_wire.expression.evaluating`: what isn't known has no value, which is NULL here, and a
comparison with it is false. So every condition is true or false and never NULL, and ! and != are safe. What SQLite and
PostgreSQL do differently isn't used: LIKE (one of them knows no case), substrings from the end, integer division,
division by zero.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shoal_wire.expression.checking import Checked
from shoal_wire.expression.tree import (
    Among,
    Binary,
    Entry,
    Expression,
    Has,
    Literal,
    Match,
    Name,
    Negative,
    Not,
)
from sqlalchemy import ColumnElement, Double, String, and_, cast, false, func, literal, not_, or_, select, true

from shoal_fleet.devices.models import Device, DeviceSlot
from shoal_fleet.labels.models import DeviceLabel

_Column = ColumnElement[Any]


def _label(key: str) -> _Column:
    is_it = (DeviceLabel.device_id == Device.id, DeviceLabel.key == key)
    return select(DeviceLabel.value).where(*is_it).scalar_subquery()


def _version(model: str) -> _Column:
    is_it = (DeviceSlot.device_id == Device.id, DeviceSlot.release == model)
    return cast(select(DeviceSlot.version).where(*is_it).scalar_subquery(), Double)


_FIELDS: Mapping[str, Callable[[float], _Column]] = {
    "name": lambda _: Device.name.expression,
    "id": lambda _: Device.id.expression,
    "project": lambda _: Device.project.expression,
    "profile": lambda _: Device.profile.expression,
    "agent_version": lambda _: Device.agent_version.expression,
    "online": lambda _: Device.is_online.expression,
    "held": lambda _: Device.held_at.is_not(None),
    "silent_s": lambda now: _number(now) - Device.last_seen_at,
    "enrolled_s": lambda now: _number(now) - Device.enrolled_at,
}
"""Of `fields.DEVICE`, but for the maps."""
_MAPS: Mapping[str, Callable[[str], _Column]] = {"labels": _label, "runs": _version}

_COMPARE: Mapping[str, Callable[[_Column, _Column], _Column]] = {
    "==": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_COMPUTE: Mapping[str, Callable[[_Column, _Column], _Column]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / func.nullif(right, _number(0.0)),
}


def to_sql(condition: Checked, *, now: float) -> ColumnElement[bool]:
    """The condition, about the row of `Device` of whatever statement it is put into."""
    return _Compiler(now).condition(condition.expression)


class _Compiler:
    def __init__(self, now: float) -> None:
        self._now = now

    def condition(self, expression: Expression) -> ColumnElement[bool]:
        """True or false, never NULL."""
        match expression:
            case Not(operand=operand):
                return not_(self.condition(operand))
            case Has(entry=entry):
                return self.value(entry).is_not(None)
            case Match():
                return self._match(expression)
            case Among(operand=operand, choices=choices):
                return _or_false(self.value(operand).in_([choice.value for choice in choices]))
            case Binary(operator="&&", left=left, right=right):
                return and_(self.condition(left), self.condition(right))
            case Binary(operator="||", left=left, right=right):
                return or_(self.condition(left), self.condition(right))
            case Binary(operator="!=", left=left, right=right):
                return not_(_or_false(self.value(left) == self.value(right)))
            case Binary(operator=operator, left=left, right=right) if operator in _COMPARE:
                return _or_false(_COMPARE[operator](self.value(left), self.value(right)))
            case Literal(value=value):
                return true() if value else false()
            case _:
                return _or_false(self.value(expression))

    def value(self, expression: Expression) -> _Column:
        """NULL where there is none."""
        match expression:
            case Literal(value=bool(value)):
                return true() if value else false()
            case Literal(value=float(value)):
                return _number(value)
            case Literal(value=value):
                return literal(value, String)
            case Name(name=name):
                return _FIELDS[name](self._now)
            case Entry(map=Name(name=name), key=key):
                return _MAPS[name](key)
            case Negative(operand=operand):
                return -self.value(operand)
            case Binary(operator=operator, left=left, right=right) if operator in _COMPUTE:
                return _COMPUTE[operator](self.value(left), self.value(right))
            case _:
                return self.condition(expression)

    def _match(self, expression: Match) -> ColumnElement[bool]:
        found, part = self.value(expression.operand), expression.part
        if expression.method == "startsWith":
            return _or_false(func.substr(found, 1, len(part)) == part)
        length = func.length(found)
        if expression.method == "endsWith":
            return _or_false(and_(length >= len(part), func.substr(found, length - len(part) + 1) == part))
        return _or_false(func.length(func.replace(found, part, "")) < length) if part else found.is_not(None)


def _or_false(condition: ColumnElement[Any]) -> ColumnElement[bool]:
    return func.coalesce(condition, false())


def _number(value: float) -> ColumnElement[float]:
    return cast(literal(value), Double)
