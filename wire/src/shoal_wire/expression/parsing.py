"""How does a text become an expression?

By precedence, lowest first: || ; && ; == != < <= > >= in ; + - ; * / ; ! - ; . [ ].
"""

import re
from typing import NamedTuple

from shoal_wire.expression.errors import WrongExpression
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

MAX_CHARACTERS = 2000
MAX_DEPTH = 32
MAX_OPERATORS = 100
"""All together: a chain of them is a tree as deep, and who walks it needs room on the stack."""
MAX_NUMBER = 2**53
"""Above, not every whole number is one that a board, SQLite and PostgreSQL agree on."""
METHODS = ("startsWith", "endsWith", "contains")

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>&&|\|\||[=!<>]=|[-!<>+*/()\[\].,])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t"}
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/"))
_COMPARING = 2
"""Of the levels: a == b == c would mean something else than it seems to."""
_SLIPS = {"=": "==", "&": "&&", "|": "||", "and": "&&", "or": "||", "not": "!"}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str) -> Expression:
    """The expression that a text is.

    Raises:
        WrongExpression: it isn't one; says where, what was expected and what was found.
    """
    if len(text) > MAX_CHARACTERS:
        raise WrongExpression(
            f"{len(text)} characters, expected at most {MAX_CHARACTERS}", text=text[:MAX_CHARACTERS], at=0
        )
    parser = _Parser(text)
    found = parser.binary(0)
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _split(text)
        self._next = 0
        self._depth = 0
        self._operators = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def expect_end(self) -> None:
        if self._token.kind != "end":
            slip = _SLIPS.get(self._token.text)
            raise self._wrong(f"expected an operator or the end{f'; did you mean {slip}?' if slip else ''}")

    def binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self.binary(level + 1)
        operators, count = _LEVELS[level], 0
        while self._token.kind in ("symbol", "name") and self._token.text in operators:
            if level == _COMPARING and count:
                problem = "one comparison can't follow another: join them with &&"
                raise WrongExpression(problem, text=self._text, at=self._token.at)
            operator, count = self._take(), count + 1
            self._count(operator)
            if operator.text == "in":
                left = self._membership(left, operator)
            else:
                left = Binary(operator.at, operator.text, left, self.binary(level + 1))
        return left

    def _unary(self) -> Expression:
        if self._token.text not in ("!", "-") or self._token.kind != "symbol":
            return self._postfix()
        operator = self._take()
        self._deepen(operator)
        operand = self._unary()
        self._depth -= 1
        return Not(operator.at, operand) if operator.text == "!" else Negative(operator.at, operand)

    def _postfix(self) -> Expression:
        found = self._primary()
        while self._token.text in (".", "[") and self._token.kind == "symbol":
            opening = self._take()
            if opening.text == "[":
                key = self._literal_string('a key in quotes, as in labels["site"]')
                self._expect("]")
                found = self._entry(found, key, opening)
                continue
            name = self._expect_kind("name", "a name after the dot")
            found = self._method(found, name) if self._token.text == "(" else self._entry(found, name.text, name)
        return found

    def _primary(self) -> Expression:
        token = self._token
        if token.kind == "number":
            return self._number(self._take())
        if token.kind == "string":
            return Literal(token.at, _unquote(self._take(), text=self._text))
        if token.text in ("true", "false"):
            return Literal(token.at, self._take().text == "true")
        if token.text == "(":
            self._deepen(self._take())
            found = self.binary(0)
            self._depth -= 1
            self._expect(")")
            return found
        if token.kind == "name" and token.text != "in":
            self._take()
            return self._has(token) if token.text == "has" and self._token.text == "(" else Name(token.at, token.text)
        raise self._wrong("expected a name, a number, a text in quotes, or (")

    def _number(self, token: _Token) -> Literal:
        value = float(token.text)
        if value > MAX_NUMBER:
            raise WrongExpression(f"expected a number of at most {MAX_NUMBER}", text=self._text, at=token.at)
        return Literal(token.at, value)

    def _has(self, token: _Token) -> Has:
        self._expect("(")
        found = self._postfix()
        if not isinstance(found, Entry):
            raise WrongExpression("has(): expected an entry, as has(labels.site)", text=self._text, at=found.at)
        self._expect(")")
        return Has(token.at, found)

    def _method(self, operand: Expression, name: _Token) -> Match:
        if name.text not in METHODS:
            raise WrongExpression(f"{name.text}(): expected {', '.join(METHODS)}", text=self._text, at=name.at)
        self._expect("(")
        part = self._literal_string(f'a text in quotes, as in name.{name.text}("yard")')
        self._expect(")")
        return Match(name.at, name.text, operand, part)

    def _membership(self, left: Expression, operator: _Token) -> Expression:
        if self._token.text == "[":
            self._take()
            choices = [self._choice()]
            while self._token.text == ",":
                self._take()
                choices.append(self._choice())
            self._expect("]")
            return Among(operator.at, left, tuple(choices))
        name = self._expect_kind("name", 'a list, as in profile in ["raspberry-pi-5"], or a map')
        if not isinstance(left, Literal) or not isinstance(left.value, str):
            raise WrongExpression(
                'expected a key in quotes before it, as in "site" in labels', text=self._text, at=left.at
            )
        return Has(operator.at, Entry(name.at, Name(name.at, name.text), left.value))

    def _choice(self) -> Literal:
        found = self._unary()
        if (
            isinstance(found, Negative)
            and isinstance(found.operand, Literal)
            and isinstance(found.operand.value, float)
        ):
            found = Literal(found.at, -found.operand.value)
        if not isinstance(found, Literal):
            raise WrongExpression("expected a number, a text in quotes, true or false", text=self._text, at=found.at)
        return found

    def _entry(self, found: Expression, key: str, token: _Token) -> Entry:
        if not isinstance(found, Name):
            raise WrongExpression(f"expected nothing after this, found {token.text!r}", text=self._text, at=token.at)
        return Entry(found.at, found, key)

    def _literal_string(self, expected: str) -> str:
        return _unquote(self._expect_kind("string", expected), text=self._text)

    def _expect_kind(self, kind: str, expected: str) -> _Token:
        if self._token.kind != kind:
            raise self._wrong(f"expected {expected}")
        return self._take()

    def _expect(self, symbol: str) -> None:
        if self._token.text != symbol or self._token.kind != "symbol":
            raise self._wrong(f"expected {symbol}")
        self._take()

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _deepen(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise WrongExpression(f"nested more than {MAX_DEPTH} deep", text=self._text, at=token.at)

    def _count(self, operator: _Token) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            problem = f"more than {MAX_OPERATORS} operators; `in` takes lists of any length"
            raise WrongExpression(problem, text=self._text, at=operator.at)

    def _wrong(self, expected: str) -> WrongExpression:
        token = self._token
        found = "the end" if token.kind == "end" else token.text[:40]
        return WrongExpression(f"{expected}, found {found}", text=self._text, at=token.at)


def _split(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise WrongExpression(_unknown(text, at), text=text, at=at)
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_Token(kind, match.group(), at))
        at = match.end()
    return [*tokens, _Token("end", "", len(text))]


def _unknown(text: str, at: int) -> str:
    character = text[at]
    if character in "\"'":
        return f"expected {character} at the end of the text that begins here"
    slip = _SLIPS.get(character)
    return f"{character!r} has no meaning here{f'; did you mean {slip}?' if slip else ''}"


def _unquote(token: _Token, *, text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            at = token.at + 1 + match.start()
            raise WrongExpression(f"\\{match[1]}: expected one of \\\\ \\\" \\' \\n \\t", text=text, at=at)
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(replace, token.text[1:-1])
