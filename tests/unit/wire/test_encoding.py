import base64
import contextlib
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from shoal_wire import encoding
from shoal_wire.encoding import MAX_DOCUMENT_BYTES, canonical, decode, decode_base64, decode_struct, encode
from shoal_wire.errors import Malformed, Unsupported, WireError
from shoal_wire.messages import Ack, Answer, Batch, Event, Presence, Process, Telemetry, Tuned, parse_row

from tests.unit.wire.struct_strategies import instances
from tests.vectors.examples import KINDS, OWNED, STRICT, example, places, replace, to_json

ROWS: tuple[type[msgspec.Struct], ...] = (Answer, Event, Telemetry, Process, Tuned)
NULLABLE = frozenset({"current", "previous", "serving", "update", "kind", "lost", "trust", "hybrid_key", "agent"})
NULLABLE_IN_ROWS = frozenset({"joules"})

ACK = {"device": "d-1234", "stream": "0" * 32, "sequence": 1}


def wrong_values(value: Any) -> list[Any]:
    """Values of another JSON type than that of `value`."""
    if isinstance(value, bool):
        return [1, "true", None]
    if isinstance(value, str):
        return [7, ["x"], None]
    if isinstance(value, int | float):
        return ["7", True, {}, None]
    return ["x", 7, {} if isinstance(value, list) else [], None]


# Reading what was written


@pytest.mark.parametrize("kind", [*KINDS.values(), *ROWS], ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_was_encoded_decodes_to_the_same(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(instances(kind))
    raw = encode(message)

    again = decode_struct(raw, kind, what="message")

    assert encode(again) == raw
    if kind is not Batch:  # a msgspec.Raw is equal to itself only
        assert again == message
    if kind in ROWS:
        assert parse_row(raw) == message


def test_equal_structs_give_equal_bytes_with_sorted_keys() -> None:
    first, second = (
        Event(at=1.0, name="n", detail="d"),
        decode_struct(b'{"name":"n","detail":"d","at":1}', Event, what="e"),
    )

    assert encode(first) == encode(second)
    assert list(json.loads(encode(first))) == sorted(json.loads(encode(first)))


# Newer and older software


@pytest.mark.parametrize("name", sorted(KINDS.keys() - STRICT))
def test_unknown_field_is_refused_where_it_is_critical(name: str) -> None:
    document = example(name) | {"of_the_future": 1, "critical": ["protocol", "of_the_future"]}

    with pytest.raises(Unsupported, match=rf"^{name}: needs the field 'of_the_future'.*update this software"):
        decode(to_json(document), KINDS[name], what=name)


def test_known_field_may_be_critical() -> None:
    assert decode(to_json(ACK | {"critical": ["sequence"]}), Ack, what="ack").sequence == 1


def test_critical_field_is_refused_even_if_a_known_field_is_of_another_type() -> None:
    document = ACK | {"sequence": {"of": "the future"}, "critical": ["of_the_future"]}

    with pytest.raises(Unsupported, match="of_the_future"):
        decode(to_json(document), Ack, what="ack")


def test_protocol_older_than_the_oldest_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"^ack: protocol 0 is older than 1, the oldest read"):
        decode(to_json(ACK | {"protocol": 0}), Ack, what="ack")


def test_newer_protocol_is_read() -> None:
    assert decode(to_json(ACK | {"protocol": 2}), Ack, what="ack").protocol == 2


def test_files_that_people_write_are_strict() -> None:
    with pytest.raises(Malformed, match="unknown field `licens`"):
        decode(to_json(example("release_draft") | {"licens": "MIT"}), KINDS["release_draft"], what="release.json")


# What isn't as agreed


@pytest.mark.parametrize("name", KINDS)
def test_wrong_type_in_any_field_is_refused_and_the_field_named(name: str) -> None:
    document = example(name)
    for way, value in places(document):
        if way[0] == "rows" and len(way) > 1:
            continue  # rows are parsed one by one, below
        for wrong in wrong_values(value):
            if way[-1] in NULLABLE and wrong is None:
                continue
            if way[-1] in OWNED and wrong == {}:
                continue
            with pytest.raises(Malformed) as caught:
                decode(to_json(replace(document, way, wrong)), KINDS[name], what=name)
            field = next(step for step in reversed(way) if isinstance(step, str))
            assert str(caught.value).startswith(f"{name}: ")
            assert f".{field}" in str(caught.value)


@pytest.mark.parametrize("row", example("batch")["rows"], ids=lambda row: row["kind"])
def test_wrong_type_in_any_field_of_a_row_is_refused_and_the_field_named(row: dict[str, Any]) -> None:
    for way, value in places(row):
        for wrong in wrong_values(value):
            if way[-1] in NULLABLE_IN_ROWS and wrong is None:
                continue
            with pytest.raises(Malformed) as caught:
                parse_row(to_json(replace(row, way, wrong)))
            field = next(step for step in reversed(way) if isinstance(step, str))
            assert f".{field}" in str(caught.value)


@pytest.mark.parametrize("name", KINDS)
def test_missing_field_is_refused_and_named(name: str) -> None:
    document = example(name)
    required = [field.name for field in msgspec.structs.fields(KINDS[name]) if field.required]
    for field in required:
        less = copy.deepcopy(document)
        del less[field]
        with pytest.raises(Malformed, match=rf"^{name}: .*missing required field `{field}`"):
            decode(to_json(less), KINDS[name], what=name)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b"null", "Expected `object`"),
        (b'{"device": "d-1234"', "truncated"),
        (to_json(ACK) + b"{}", "trailing"),
        (to_json(ACK).decode().encode("utf-16"), "malformed"),
        (b"\xef\xbb\xbf" + to_json(ACK), "malformed"),
        (to_json(ACK).replace(b"d-1234", b"d-\xff34"), "UTF-8"),
        (to_json(ACK).replace(b"d-1234", b"d-\xed\xa0\x80"), "UTF-8"),
        (to_json(ACK).replace(b"d-1234", rb"d-\ud800"), "hex escape"),
        (to_json(ACK).replace(b"d-1234", rb"d-\udc00\ud800"), "surrogate"),
        (to_json(ACK).replace(b"d-1234", b"d-1234\\n"), r"regex.*\$\.device"),
        (to_json(ACK).replace(b"d-1234", "d-１２３４".encode()), r"regex.*\$\.device"),
        (to_json(ACK | {"sequence": -1}), r"\$\.sequence"),
        (to_json(ACK | {"sequence": 2**63}), r"\$\.sequence"),
        (to_json(ACK | {"sequence": 10**4000}), r"\$\.sequence"),
        (to_json(ACK | {"sequence": 1.5}), r"\$\.sequence"),
        (to_json(ACK | {"protocol": 2**40}), r"\$\.protocol"),
        (to_json(ACK | {"critical": ["../x"]}), r"\$\.critical\[0\]"),
        (to_json(ACK | {"critical": ["x"] * 33}), r"\$\.critical"),
    ],
)
def test_what_is_no_document_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(Malformed, match=rf"^ack: .*({message})"):
        decode(raw, Ack, what="ack")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000, "-1", "1e12"])
def test_number_that_is_no_time_is_refused(number: str) -> None:
    raw = f'{{"online":true,"stream":"{"0" * 32}","at":{number}}}'.encode()

    with pytest.raises(Malformed):
        decode(raw, Presence, what="presence")


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" * 5000])
def test_number_that_is_none_is_refused_where_any_value_is_allowed(number: str) -> None:
    raw = to_json(example("batch")["rows"][0]).replace(b"69", number.encode())

    with pytest.raises(Malformed, match=r"^row: "):
        parse_row(raw)


def test_too_long_a_document_is_refused_before_it_is_parsed() -> None:
    raw = b"{" + b" " * MAX_DOCUMENT_BYTES

    with pytest.raises(Malformed, match=r"^ack: 1048577 bytes, expected at most 1048576"):
        decode(raw, Ack, what="ack")


@pytest.mark.parametrize("opening", [b"[", b'{"x":'])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    depth = 100_000
    for raw in (
        opening * depth,
        b'{"of_the_future":' + opening * depth,
        b'{"kind":"event","of_the_future":' + opening * (depth // 4),
        b'{"kind":"answer","answer":' + opening * (depth // 4),
        b'{"rows":[' + opening * depth,
    ):
        for read in (lambda raw: decode(raw, Batch, what="batch"), parse_row):
            with pytest.raises(Malformed):
                read(raw)


def test_last_of_two_fields_of_one_name_counts() -> None:
    assert decode(b'{"sequence":7,' + to_json(ACK)[1:], Ack, what="ack").sequence == 1


@given(raw=st.binary(max_size=60))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_a_document_or_a_wire_error(raw: bytes) -> None:
    for read in (lambda raw: decode(raw, Presence, what="presence"), parse_row):
        with pytest.raises(WireError):
            read(raw)


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7), name=st.sampled_from(sorted(KINDS)))
@settings(max_examples=150, deadline=None)
def test_a_changed_bit_gives_a_document_or_a_wire_error(position: int, bit: int, name: str) -> None:
    raw = bytearray(to_json(example(name)))
    assume(position < len(raw))
    raw[position] ^= 1 << bit
    with contextlib.suppress(WireError):
        assert isinstance(decode(bytes(raw), KINDS[name], what=name), KINDS[name])


def test_error_text_stays_short_and_on_one_line() -> None:
    report = example("reported")
    report["update"]["state"] = "\n\x1b[31m" + "x" * 500_000

    with pytest.raises(Malformed, match=r"\$\.update\.state") as caught:
        decode(to_json(report), KINDS["reported"], what="reported")
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


# Bounds of every field


def unbounded(kind: inspect.Type, way: str) -> list[str]:
    """Text fields and whole numbers without a bound."""
    match kind:
        case inspect.StructType():
            return [place for field in kind.fields for place in unbounded(field.type, f"{way}.{field.name}")]
        case inspect.VarTupleType():
            return unbounded(kind.item_type, f"{way}[]")
        case inspect.UnionType():
            return [place for member in kind.types for place in unbounded(member, way)]
        case inspect.StrType(max_length=None, pattern=pattern) if not (pattern or "").endswith("\\Z"):
            return [way]
        case inspect.IntType(le=None):
            return [way]
    return []


@pytest.mark.parametrize("kind", [*KINDS.values(), *ROWS], ids=lambda kind: kind.__name__)
def test_every_text_and_whole_number_is_bounded(kind: type[msgspec.Struct]) -> None:
    assert unbounded(inspect.type_info(kind), kind.__name__) == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (encoding.DeviceId, ["abc", "0-0", "a" * 63], ["ab", "a" * 64, "-ab", "Abc", "a_c", "a/c", "ä12", "abc\n"]),
        (encoding.ModelName, ["a", "yard-camera", "1" * 63], ["", "-a", "a" * 64, "A", "a.b", "a/b", "..", "a\n"]),
        (encoding.Identifier, ["a", "A.b_c-9", "x" * 128], ["", ".a", "a/b", "a\\b", "-a", "x" * 129, "é", "a\n"]),
        (encoding.Sha256, ["0" * 64], ["0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n"]),
        (encoding.Bytes64, ["", "AA==", "A" * 131_072], ["A===", "=", "A\n", "-_", "A" * 131_073]),
        (encoding.Version, [1, 2**31 - 1], [0, -1, 2**31]),
        (encoding.Counter, [0, 2**63 - 1], [-1, 2**63]),
    ],
)
def test_names_and_numbers_keep_to_their_form(kind: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value
    for value in bad:
        if value == "=":
            continue  # matches the form; `decode_base64` refuses it
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(value), type=kind)


# Base64 and canonical lists


@given(raw=st.binary(max_size=40))
@settings(max_examples=50, deadline=None)
def test_base64_reads_what_base64_writes(raw: bytes) -> None:
    assert decode_base64(base64.b64encode(raw).decode(), what="key") == raw


@pytest.mark.parametrize(
    "text", ["A", "AA", "AA=", "AB==", "AAB=", "AA==AA==", "AA==\n", " AA==", "-_==", "=", "é", "\ud800"]
)
def test_second_spelling_of_base64_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match=r"^key: not base64"):
        decode_base64(text, what="key")


VALUES = st.lists(st.text() | st.integers(), max_size=4)


@given(first=VALUES, second=VALUES)
@settings(max_examples=50, deadline=None)
def test_different_lists_have_different_canonical_bytes(first: list[str | int], second: list[str | int]) -> None:
    assert (canonical(first) == canonical(second)) is (first == second)
    assert json.loads(canonical(first)) == first
    assert canonical(first).isascii()
