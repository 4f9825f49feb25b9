import hashlib
import io
import itertools
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_wire import sealed_file
from shoal_wire.errors import Damaged, Malformed
from shoal_wire.sealed_file import (
    AES_256_GCM,
    CHACHA20_POLY1305,
    HEADER_BYTES,
    TAG_BYTES,
    chunk_range,
    parse_header,
    read_parts,
    seal,
    unseal,
)

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
CHUNK = 16
PLAINTEXT = bytes(range(3 * CHUNK + 5))

SUITES = pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])


def sealed(plaintext: bytes = PLAINTEXT, *, key: bytes = KEY, suite: str = AES_256_GCM) -> list[bytes]:
    return list(seal(plaintext, key, suite=suite, chunk_bytes=CHUNK))


def refused(parts: Iterable[bytes], *, key: bytes = KEY) -> bytes:
    """Asserts that a file is refused; returns what was handed out until then, which must be true to the plaintext."""
    given_out = b""
    with pytest.raises((Damaged, Malformed)):
        for chunk in unseal(parts, key):
            given_out += chunk
    assert PLAINTEXT.startswith(given_out)
    return given_out


def cut(raw: bytes) -> Iterator[bytes]:
    return read_parts(io.BytesIO(raw).read)


@given(plaintext=st.binary(max_size=100), key=st.binary(min_size=32, max_size=32), chunk=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_opens_to_what_was_sealed(plaintext: bytes, key: bytes, chunk: int) -> None:
    raw = b"".join(seal(plaintext, key, chunk_bytes=chunk))

    assert b"".join(unseal(cut(raw), key)) == plaintext
    assert len(raw) == parse_header(raw[:HEADER_BYTES]).ciphertext_bytes


def test_sealing_twice_gives_the_same_file() -> None:
    assert sealed() == sealed()


@SUITES
def test_file_cut_short_at_any_byte_is_refused(suite: str) -> None:
    raw = b"".join(sealed(suite=suite))
    for length in range(len(raw)):
        assert len(refused(cut(raw[:length]))) < len(PLAINTEXT)


@SUITES
def test_file_with_a_changed_bit_anywhere_is_refused(suite: str) -> None:
    raw = b"".join(sealed(suite=suite))
    for place, bit in itertools.product(range(len(raw)), range(8)):
        changed = bytearray(raw)
        changed[place] ^= 1 << bit
        refused(cut(bytes(changed)))


def test_file_whose_last_chunks_were_taken_away_is_refused() -> None:
    parts = sealed()
    for kept in range(1, len(parts)):
        refused(parts[:kept])


@SUITES
def test_chunks_in_another_order_are_refused(suite: str) -> None:
    header, *chunks = sealed(suite=suite)
    for order in itertools.permutations(chunks):
        if list(order) != chunks:
            refused([header, *order])


def test_chunk_that_comes_twice_is_refused() -> None:
    parts = sealed()
    for index in range(1, len(parts)):
        refused([*parts[: index + 1], *parts[index:]])
    for index in range(1, len(parts) - 1):
        refused([*parts[: index + 1], *parts[index:-1]])


def test_chunk_of_another_file_is_refused() -> None:
    mine = sealed()
    foreign = {
        "other key, same size": sealed(key=OTHER_KEY),
        "same key, other size": sealed(PLAINTEXT + b"x"),
        "same key, other suite": sealed(suite=CHACHA20_POLY1305),
        "same key, other chunk size": list(seal(PLAINTEXT, KEY, chunk_bytes=CHUNK + 1)),
    }
    for parts in foreign.values():
        for index in range(1, len(mine)):
            refused([*mine[:index], parts[index], *mine[index + 1 :]])


def test_other_key_opens_nothing() -> None:
    assert refused(sealed(), key=OTHER_KEY) == b""


@pytest.mark.parametrize("more", [b"\0", bytes(TAG_BYTES), bytes(CHUNK + TAG_BYTES), sealed()[-1], b"".join(sealed())])
def test_file_that_goes_on_is_refused(more: bytes) -> None:
    raw = b"".join(sealed())

    refused(cut(raw + more))
    refused([*sealed(), more])


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_empty_chunk_at_the_end_is_not_taken_for_the_end(size: int) -> None:
    parts = sealed(PLAINTEXT[:size])
    for more in ([b""], [bytes(TAG_BYTES)]):
        refused([*parts, *more])


def test_header_in_two_pieces_is_refused() -> None:
    parts = sealed()

    refused([parts[0] + b"x", *parts[1:]])
    refused([parts[0][:20], parts[0][20:], *parts[1:]])


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, b"shoal", "expected it to start with"),
        (12, b"\x02", "version 2, suite 1"),
        (13, b"\x00", "suite 0"),
        (13, b"\x03", "suite 3"),
        (14, b"\x00\x01", "reserved fields 1 and 0"),
        (28, b"\x00\x00\x00\x01", "reserved fields 0 and 1"),
        (16, b"\x00\x00\x00\x00", "chunks of 0 bytes, expected 1 to 16777216"),
        (16, b"\x01\x00\x00\x01", "chunks of 16777217 bytes"),
        (16, b"\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615 chunks, expected at most"),
    ],
)
def test_header_that_is_not_as_agreed_is_refused(place: int, value: bytes, message: str) -> None:
    header = bytearray(sealed()[0])
    header[place : place + len(value)] = value

    with pytest.raises(Malformed, match=f"^sealed file: .*{message}"):
        list(unseal([bytes(header), *sealed()[1:]], KEY))


def test_header_that_promises_far_more_is_refused_at_once() -> None:
    header = bytearray(sealed()[0])
    header[20:28] = (2**35).to_bytes(8, "big")

    assert refused([bytes(header), *sealed()[1:]]) == b""


def test_file_that_no_reader_takes_is_not_made() -> None:
    for chunk_bytes in (0, sealed_file.MAX_CHUNK_BYTES + 1):
        with pytest.raises(Malformed):
            list(seal(b"x", KEY, chunk_bytes=chunk_bytes))


def test_empty_input_is_refused() -> None:
    assert refused([]) == b""
    assert refused(cut(b"")) == b""


def test_holds_no_more_than_one_chunk() -> None:
    taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for part in sealed():
            taken += 1
            yield part

    for index, chunk in enumerate(unseal(counted(), KEY)):
        assert taken == 2 + index
        assert len(chunk) <= CHUNK


def test_reads_no_more_than_one_chunk_at_a_time() -> None:
    raw, sizes = io.BytesIO(b"".join(sealed())), []

    def read(size: int) -> bytes:
        sizes.append(size)
        return raw.read(size)

    assert b"".join(unseal(read_parts(read), KEY)) == PLAINTEXT
    assert max(sizes) == CHUNK + TAG_BYTES


@given(at_most=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_opens_a_file_that_is_read_in_pieces(at_most: int) -> None:
    raw = io.BytesIO(b"".join(sealed()))

    assert b"".join(unseal(read_parts(lambda size: raw.read(min(size, at_most))), KEY)) == PLAINTEXT


@given(size=st.integers(0, 100), chunk=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_ranges_of_chunks_make_up_the_file_and_have_the_digests(size: int, chunk: int) -> None:
    parts = list(seal(bytes(size), KEY, chunk_bytes=chunk))
    raw, digests = b"".join(parts), sealed_file.digest(parts)
    ranges = [chunk_range(index=index, chunk_bytes=chunk, ciphertext_bytes=len(raw)) for index in range(len(parts) - 1)]

    assert b"".join(raw[start:end] for start, end in ranges) == raw
    assert tuple(hashlib.sha256(raw[start:end]).hexdigest() for start, end in ranges) == digests.chunk_sha256s
    assert (digests.ciphertext_bytes, digests.ciphertext_sha256) == (len(raw), hashlib.sha256(raw).hexdigest())
