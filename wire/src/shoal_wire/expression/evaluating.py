"""Is a condition true of what is known?

What isn't known has no value. A comparison with it is false, and != is the opposite of == always. So nothing can fail,
and a fleet's database, which has the same rules, finds the same devices. A division by zero has no value either.
"""

import math
import operator
from collections.abc import Callable, Mapping

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
    Value,
)

Values = Mapping[str, Value | Mapping[str, Value]]
"""Of all fields; maps by their keys. Absent and None are the same."""

_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MATCH: Mapping[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}


def is_true(condition: Checked, values: Values) -> bool:
    """Whether it holds. `values` are of the kinds that it was checked with."""
    return _evaluate(condition.expression, values) is True


def _evaluate(expression: Expression, values: Values) -> Value:
    match expression:
        case Literal(value=value):
            return value
        case Name() | Entry():
            return _look_up(expression, values)
        case Has(entry=entry):
            return _look_up(entry, values) is not None
        case Not(operand=operand):
            return _evaluate(operand, values) is not True
        case Negative(operand=operand):
            found = _evaluate(operand, values)
            return None if found is None else -_number(found)
        case Match(operand=operand, method=method, part=part):
            found = _evaluate(operand, values)
            return isinstance(found, str) and _MATCH[method](found, part)
        case Among(operand=operand, choices=choices):
            found = _evaluate(operand, values)
            return found is not None and any(found == choice.value for choice in choices)
        case Binary():
            return _binary(expression, values)


def _binary(expression: Binary, values: Values) -> Value:
    left = _evaluate(expression.left, values)
    if expression.operator == "&&":
        return left is True and _evaluate(expression.right, values) is True
    if expression.operator == "||":
        return left is True or _evaluate(expression.right, values) is True
    right = _evaluate(expression.right, values)
    if expression.operator == "!=":
        return left is None or right is None or left != right
    if left is None or right is None:
        return None if expression.operator in "+-*/" else False
    if expression.operator == "==":
        return left == right
    if expression.operator in _ORDER:
        return _ORDER[expression.operator](_number(left), _number(right))
    return _compute(expression.operator, _number(left), _number(right))


def _compute(sign: str, left: float, right: float) -> float | None:
    """No value where the result isn't finite, as PostgreSQL has none for it."""
    if sign == "/":
        found = left / right if right else math.nan
    else:
        found = {"+": left + right, "-": left - right, "*": left * right}[sign]
    return found if math.isfinite(found) else None


def _look_up(expression: Name | Entry, values: Values) -> Value:
    if isinstance(expression, Name):
        found = values.get(expression.name)
    else:
        entries = values.get(expression.map.name)
        found = entries.get(expression.key) if isinstance(entries, Mapping) else None
    if found is None or isinstance(found, Mapping):
        return None
    if isinstance(found, str | bool):
        return found
    return float(found) if math.isfinite(found) else None


def _number(value: Value) -> float:
    assert value is not None and not isinstance(value, str)
    return float(value)
