"""What is a parser of outside bytes, and how are bytes that it has never seen made of those that it takes?"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

MAX_MUTATED_BYTES = 1 << 17

BOMBS: Sequence[bytes] = (
    b"",
    b"\0",
    b"\xff" * 64,
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"9" * 6_000,
    b"-1e999999999",
    b'"' + b"\\ud800" * 2_000 + b'"',
    b'"' + b"a" * 100_000 + b'"',
    b"\xef\xbb\xbf{}",
)
"""Inputs that are bad for most parsers: too deep, too long, too large a number, half a character."""

_ODD_VALUES: Sequence[object] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, -1.5),
    *("", " ", "a" * 5_000, "\0", "\u202e", "ÿ", "../../x"),
    *([], {}, [None], [[]], {"": None}, [0] * 3_000, {"critical": ["x"]}),
)
_NUMBERS: Sequence[bytes] = (
    b"\0" * 4,
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff" * 8,
)


class Parser(NamedTuple):
    """A function that takes what strangers may send."""

    parse: Callable[[bytes], object]
    seeds: Sequence[bytes]
    """Inputs that it takes."""
    errors: tuple[type[Exception], ...]
    """All that it may raise."""
    refuses: Sequence[bytes] = ()
    """Inputs that it must refuse, on top of what is made of the seeds."""


def text_of(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """For a parser that is given text: what isn't UTF-8 never reaches it."""
    return lambda raw: parse(raw.decode(errors="replace"))


def mutate(raw: bytes, chance: random.Random) -> bytes:
    """The bytes with a few changes; where they are JSON, often ones that leave them JSON."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        change = _change_json if chance.random() < 0.5 and raw[:1] in {b"{", b"["} else _change_bytes
        raw = change(raw, chance)
    return raw[:MAX_MUTATED_BYTES]


def _change_json(raw: bytes, chance: random.Random) -> bytes:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return _change_bytes(raw, chance)
    holders = [value for value in _walk(document) if isinstance(value, dict | list) and value]
    if not holders:
        return json.dumps(chance.choice(_ODD_VALUES)).encode()
    holder: Any = chance.choice(holders)
    place = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    change = chance.random()
    if change < 0.15:
        del holder[place]
    elif change < 0.3 and isinstance(holder, dict):
        holder[f"{place}x" if chance.random() < 0.5 else chance.choice(("", "protocol", "critical"))] = holder[place]
    elif change < 0.4:
        holder[place] = chance.choice(holders)  # a part of the document in another place, or within itself
    else:
        holder[place] = chance.choice(_ODD_VALUES)
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):  # within itself
        return raw


def _walk(document: object) -> list[object]:
    found, i = [document], 0
    while i < len(found):
        value = found[i]
        found += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        i += 1
    return found


def _change_bytes(raw: bytes, chance: random.Random) -> bytes:
    change: Callable[[bytearray, int, random.Random], bytes] = chance.choice(list(_BYTE_CHANGES.values()))
    return change(bytearray(raw), chance.randrange(len(raw) + 1), chance)


def _flip(raw: bytearray, at: int, chance: random.Random) -> bytes:
    if at < len(raw):
        raw[at] ^= 1 << chance.randrange(8)
    return bytes(raw)


def _overwrite(raw: bytearray, at: int, chance: random.Random) -> bytes:
    number = chance.choice(_NUMBERS)
    return bytes(raw[:at] + number + raw[at + len(number) :])


def _cut_out(raw: bytearray, at: int, chance: random.Random) -> bytes:
    return bytes(raw[:at] + raw[at + chance.choice((1, 2, 8, 100)) :])


def _repeat(raw: bytearray, at: int, chance: random.Random) -> bytes:
    length = chance.choice((1, 4, 50))
    return bytes(raw[:at] + raw[at : at + length] * chance.choice((2, 3, 200)) + raw[at + length :])


def _insert(raw: bytearray, at: int, chance: random.Random) -> bytes:
    return bytes(raw[:at]) + chance.randbytes(chance.choice((1, 3, 40))) + bytes(raw[at:])


_BYTE_CHANGES: Mapping[str, Callable[[bytearray, int, random.Random], bytes]] = {
    "flip": _flip,
    "overwrite": _overwrite,
    "cut out": _cut_out,
    "cut off": lambda raw, at, _: bytes(raw[:at]),
    "repeat": _repeat,
    "insert": _insert,
}
