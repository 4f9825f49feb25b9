"""Are messages of Protocol Buffers read within bounds, whatever the bytes are?"""

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.errors import BadModel
from shoal_converters.inspection.protobuf import Message


def read(raw: bytes) -> Message:
    return Message(memoryview(raw), what="model")


def test_reads_texts_numbers_and_messages_as_the_library_wrote_them() -> None:
    written = descriptor_pb2.FileDescriptorProto(name="a.proto", public_dependency=[3, 300, 70_000])
    field = written.message_type.add(name="Box").field.add(name="left", number=1)
    field.type = descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT
    message = read(written.SerializeToString())
    box = next(message.messages(4))
    assert (message.text(1), message.numbers(10)) == ("a.proto", [3, 300, 70_000])
    assert (box.text(1), box.message(2).text(1), box.message(2).number(3), box.message(2).number(5)) == (
        "Box",
        "left",
        1,
        2,
    )
    assert (message.text(12), message.number(99, default=7), message.has(99)) == ("", 7, False)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_reads_packed_numbers_with_their_sign(numbers: list[int]) -> None:
    packed = b"".join(varint(number & (2**64 - 1)) for number in numbers)
    assert read(b"\x0a" + varint(len(packed)) + packed).numbers(1) == numbers


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x3a\x80\x80\x80\x80\x08rest", r"field 7 claims 2147483648 bytes, 4 are left"),
        (b"\x08", "cut short in the middle of a number"),
        (b"\x08" + b"\xff" * 10, "more than 64 bits"),
        (b"\x0b", "a field of kind 3"),
        (b"\x02\x00", "a field of number 0"),
        (bytes(100), "a field of number 0"),
    ],
)
def test_refuses_what_is_no_message(raw: bytes, reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        read(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    try:
        message = read(raw)
        for inner in message.messages(1):
            inner.numbers(1)
            inner.text(2)
    except BadModel:
        pass


def varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
