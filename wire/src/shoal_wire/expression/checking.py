"""Does an expression mean something, given the fields that there are?"""

import difflib
import enum
from collections.abc import Mapping
from typing import NamedTuple

from shoal_wire.expression.errors import WrongExpression
from shoal_wire.expression.parsing import parse
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


class Kind(enum.Enum):
    """Of what a field, or a part of an expression, is."""

    BOOL = "true or false"
    NUMBER = "a number"
    STRING = "a text"


class Field(NamedTuple):
    """Something that expressions may name."""

    kind: Kind
    """Of the field, or of what a map has under each key."""
    meaning: str
    """In one line, with its unit."""
    is_map: bool = False
    """Keys are texts."""


Environment = Mapping[str, Field]
"""All that expressions may name."""

_LOGIC = ("&&", "||")
_EQUAL = ("==", "!=")
_ORDER = ("<", "<=", ">", ">=")


class Checked(NamedTuple):
    """A condition that means something."""

    text: str
    expression: Expression


def check(text: str, environment: Environment) -> Checked:
    """The condition that a text is.

    Raises:
        WrongExpression: it isn't one, names what there isn't, or isn't true or false.
    """
    expression = parse(text)
    kind = _Checker(text, environment).kind(expression)
    if kind is not Kind.BOOL:
        raise WrongExpression(
            f"expected a condition, which is true or false; this is {kind.value}", text=text, at=expression.at
        )
    return Checked(text, expression)


class _Checker:
    def __init__(self, text: str, environment: Environment) -> None:
        self._text = text
        self._environment = environment

    def kind(self, expression: Expression) -> Kind:
        match expression:
            case Literal():
                return _kind_of(expression)
            case Name():
                return self._name(expression)
            case Entry():
                return self._entry(expression)
            case Has(entry=entry):
                self._entry(entry)
                return Kind.BOOL
            case Not(operand=operand):
                return self._expect(operand, Kind.BOOL, what="!")
            case Negative(operand=operand):
                return self._expect(operand, Kind.NUMBER, what="-")
            case Match(operand=operand, method=method):
                self._expect(operand, Kind.STRING, what=f"{method}()")
                return Kind.BOOL
            case Among():
                return self._among(expression)
            case Binary():
                return self._binary(expression)

    def _binary(self, expression: Binary) -> Kind:
        left, right, operator = expression.left, expression.right, expression.operator
        if operator in _LOGIC:
            self._expect(left, Kind.BOOL, what=operator)
            return self._expect(right, Kind.BOOL, what=operator)
        if operator in _EQUAL:
            self._expect(right, self.kind(left), what=operator)
            return Kind.BOOL
        self._expect(left, Kind.NUMBER, what=operator)
        self._expect(right, Kind.NUMBER, what=operator)
        return Kind.BOOL if operator in _ORDER else Kind.NUMBER

    def _among(self, expression: Among) -> Kind:
        kind = self.kind(expression.operand)
        for choice in expression.choices:
            self._expect(choice, kind, what="in")
        return Kind.BOOL

    def _expect(self, operand: Expression, kind: Kind, *, what: str) -> Kind:
        found = self.kind(operand)
        if found is not kind:
            raise self._wrong(f"{what} expected {kind.value} here, found {found.value}", at=operand.at)
        return kind

    def _name(self, expression: Name) -> Kind:
        field = self._field(expression)
        if field.is_map:
            raise self._wrong(f'{expression.name}: expected a key, as in {expression.name}["…"]', at=expression.at)
        return field.kind

    def _entry(self, expression: Entry) -> Kind:
        field = self._field(expression.map)
        if not field.is_map:
            raise self._wrong(f"{expression.map.name} is {field.kind.value} and has no parts", at=expression.at)
        return field.kind

    def _field(self, name: Name) -> Field:
        field = self._environment.get(name.name)
        if field is None:
            close = difflib.get_close_matches(name.name, self._environment, n=1)
            hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(sorted(self._environment))}"
            raise self._wrong(f"{name.name}: no such name; {hint}", at=name.at)
        return field

    def _wrong(self, problem: str, *, at: int) -> WrongExpression:
        return WrongExpression(problem, text=self._text, at=at)


def _kind_of(literal: Literal) -> Kind:
    if isinstance(literal.value, bool):
        return Kind.BOOL
    return Kind.STRING if isinstance(literal.value, str) else Kind.NUMBER
