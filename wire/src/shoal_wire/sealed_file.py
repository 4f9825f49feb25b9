"""How is a file of a release encrypted, so that it can be fetched in parts and yet not be cut, mixed or reordered?

A sealed file is a header and chunks. Each chunk is sealed by AES-256-GCM or ChaCha20-Poly1305 under the file's content
key (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár, 2015): nonce = 7-byte prefix, 4-byte chunk
number, 1-byte flag of the last chunk; the header is the associated data of every chunk. Cipher key and prefix come from
content key and header by HKDF, so sealing is deterministic: the same key and plaintext give the same file, which is
what a delta must end in. One content key belongs to one plaintext, and another header (suite, chunk size) gives another
cipher key, hence no nonce is ever used for two plaintexts.

    header, 32 bytes, big-endian:  magic "SHOALSEALED\\0" 12 · version u8 · suite u8 · zero u16 · chunk bytes u32 ·
                                   plaintext bytes u64 · zero u32
    chunks:                        chunk bytes of plaintext each (the last one shorter, or empty) + 16 bytes of tag
"""

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shoal_wire.errors import Damaged, Malformed

CHUNK_BYTES = 1 << 20
KEY_BYTES = 32
HEADER_BYTES = 32
TAG_BYTES = 16
MAX_CHUNK_BYTES = 16 << 20

AES_256_GCM = "aes-256-gcm"
CHACHA20_POLY1305 = "chacha20-poly1305"

_MAGIC = b"SHOALSEALED\0"
_VERSION = 1
_MAX_CHUNKS = 1 << 32
_HEADER = struct.Struct(">12sBBHIQI")

_Cipher = AESGCM | ChaCha20Poly1305
_PlainT = TypeVar("_PlainT")
_SUITES: dict[str, tuple[int, Callable[[bytes], _Cipher]]] = {
    AES_256_GCM: (1, AESGCM),
    CHACHA20_POLY1305: (2, ChaCha20Poly1305),
}
_SUITE_NAMES = {number: name for name, (number, _) in _SUITES.items()}


class Header(NamedTuple):
    """What the first 32 bytes of a sealed file say."""

    suite: str
    chunk_bytes: int
    plaintext_bytes: int

    @property
    def chunks(self) -> int:
        """Number of chunks; an empty file has one."""
        return max(1, -(-self.plaintext_bytes // self.chunk_bytes))

    @property
    def ciphertext_bytes(self) -> int:
        """Size of the whole sealed file."""
        return HEADER_BYTES + self.plaintext_bytes + self.chunks * TAG_BYTES


def seal(
    plaintext: bytes, content_key: bytes, *, suite: str = AES_256_GCM, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """The parts of a sealed file: its header, then one sealed chunk after another.

    Raises:
        Malformed: chunks of a size that no reader takes.
    """
    return seal_stream(
        io.BytesIO(plaintext).read, content_key, plaintext_bytes=len(plaintext), suite=suite, chunk_bytes=chunk_bytes
    )


def seal_stream(
    read: Callable[[int], bytes],
    content_key: bytes,
    *,
    plaintext_bytes: int,
    suite: str = AES_256_GCM,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[bytes]:
    """Like `seal`, with a chunk in memory at a time. `read(n)` gives up to n bytes, as a file's does.

    The caller must make sure that one content key never seals two plaintexts: compare each chunk's digest with the
    expected one before it goes anywhere.

    Raises:
        Malformed: chunks of a size that no reader takes, or not as many bytes of plaintext as were announced.
    """
    header = Header(suite, chunk_bytes, plaintext_bytes)
    packed = _pack(header)
    parse_header(packed)
    cipher, prefix = _derive(header, content_key)
    yield packed
    for index in range(header.chunks):
        is_last = index == header.chunks - 1
        size = plaintext_bytes - index * chunk_bytes if is_last else chunk_bytes
        part = _read_fully(read, size)
        if len(part) != size or (is_last and read(1)):
            raise Malformed(f"plaintext: expected {plaintext_bytes} bytes, found other than that at chunk {index}")
        yield cipher.encrypt(_nonce(prefix, index, is_last=is_last), part, packed)


def unseal(parts: Iterable[bytes], content_key: bytes) -> Iterator[bytes]:
    """The plaintext of a sealed file, chunk by chunk, each authenticated before it is yielded.

    `parts` are the header and the sealed chunks, as `read_parts` cuts them. The plaintext is whole only once the
    iterator has ended without an error.

    Raises:
        Malformed: no sealed file of a version that is known.
        Damaged: cut short, too long, reordered, changed, of another file or under another key.
    """
    return _open(parts, content_key, lambda cipher, _chunk_bytes: cipher.decrypt)


def unseal_views(parts: Iterable[bytes], content_key: bytes) -> Iterator[memoryview | bytes]:
    """Like `unseal`, a third faster: each chunk is in the same buffer, and is gone when the next is asked for.

    Raises as `unseal` does.
    """
    return _open(parts, content_key, _decrypt_in_place)


_Decrypt = Callable[[bytes, bytes, bytes], _PlainT]
"""Nonce, sealed chunk and associated data to plaintext."""


def _open(
    parts: Iterable[bytes], content_key: bytes, make: Callable[[_Cipher, int], _Decrypt[_PlainT]]
) -> Iterator[_PlainT]:
    rest = iter(parts)
    packed = next(rest, b"")
    header = parse_header(packed)
    cipher, prefix = _derive(header, content_key)
    decrypt = make(cipher, header.chunk_bytes)
    for index in range(header.chunks):
        part = next(rest, None)
        if part is None:
            raise Damaged(f"sealed file: cut short after chunk {index} of {header.chunks}")
        try:
            yield decrypt(_nonce(prefix, index, is_last=index == header.chunks - 1), part, packed)
        except (InvalidTag, ValueError):
            raise Damaged(
                f"sealed file: chunk {index} of {header.chunks} isn't what was sealed there under this key"
            ) from None
    if next(rest, None) is not None:
        raise Damaged(f"sealed file: goes on after its last chunk, {header.chunks}")


def _decrypt_in_place(cipher: _Cipher, chunk_bytes: int) -> _Decrypt[memoryview | bytes]:
    if not hasattr(cipher, "decrypt_into"):  # cryptography before 50
        return cipher.decrypt
    buffer = memoryview(bytearray(chunk_bytes))

    def decrypt(nonce: bytes, part: bytes, packed: bytes) -> memoryview:
        plain = buffer[: max(0, len(part) - TAG_BYTES)]
        cipher.decrypt_into(nonce, part, packed, plain)
        return plain

    return decrypt


def parse_header(packed: bytes) -> Header:
    """Read the first `HEADER_BYTES` of a sealed file.

    Raises:
        Malformed: not a sealed file, or of a version or suite that isn't known.
    """
    if len(packed) < HEADER_BYTES or packed[: len(_MAGIC)] != _MAGIC:
        raise Malformed(f"sealed file: expected it to start with {_MAGIC!r}, found {packed[: len(_MAGIC)]!r}")
    _, version, suite, zero, chunk_bytes, plaintext_bytes, zeros = _HEADER.unpack(packed[:HEADER_BYTES])
    if version != _VERSION or suite not in _SUITE_NAMES or zero or zeros:
        raise Malformed(
            f"sealed file: version {version}, suite {suite} and reserved fields {zero} and {zeros} are not known to "
            f"this software"
        )
    if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
        raise Malformed(f"sealed file: chunks of {chunk_bytes} bytes, expected 1 to {MAX_CHUNK_BYTES}")
    header = Header(_SUITE_NAMES[suite], chunk_bytes, plaintext_bytes)
    if header.chunks > _MAX_CHUNKS:
        raise Malformed(f"sealed file: {header.chunks} chunks, expected at most {_MAX_CHUNKS}")
    return header


def read_parts(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Cut a sealed file into header and chunks. `read(n)` gives up to n bytes and b"" at the end, as a file's does."""
    packed = _read_fully(read, HEADER_BYTES)
    yield packed
    header = parse_header(packed)
    while part := _read_fully(read, header.chunk_bytes + TAG_BYTES):
        yield part


def _read_fully(read: Callable[[int], bytes], size: int) -> bytes:
    """Less than `size` bytes only at the end: a pipe, a socket or an unbuffered file may give them in pieces."""
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class Digests(NamedTuple):
    """What a manifest records of a sealed file."""

    ciphertext_sha256: str
    ciphertext_bytes: int
    chunk_sha256s: tuple[str, ...]


def digest(parts: Iterable[bytes]) -> Digests:
    """Digests of the whole file and of each chunk (the first chunk's digest covers the header as well)."""
    whole, size, chunks, first = hashlib.sha256(), 0, [], b""
    for index, part in enumerate(parts):
        whole.update(part)
        size += len(part)
        if index == 0:
            first = part
        else:
            chunks.append(hashlib.sha256(first + part).hexdigest())
            first = b""
    return Digests(whole.hexdigest(), size, tuple(chunks))


def chunk_range(*, index: int, chunk_bytes: int, ciphertext_bytes: int) -> tuple[int, int]:
    """First byte and end (exclusive) of a chunk within the sealed file; chunk 0 includes the header."""
    start = HEADER_BYTES + index * (chunk_bytes + TAG_BYTES) if index else 0
    end = HEADER_BYTES + (index + 1) * (chunk_bytes + TAG_BYTES)
    return start, min(end, ciphertext_bytes)


def _pack(header: Header) -> bytes:
    number = _SUITES[header.suite][0]
    return _HEADER.pack(_MAGIC, _VERSION, number, 0, header.chunk_bytes, header.plaintext_bytes, 0)


def _derive(header: Header, content_key: bytes) -> tuple[_Cipher, bytes]:
    info = b"shoal/sealed/v1" + _pack(header)
    derived = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES + 7, salt=None, info=info).derive(content_key)
    return _SUITES[header.suite][1](derived[:KEY_BYTES]), derived[KEY_BYTES:]


def _nonce(prefix: bytes, index: int, *, is_last: bool) -> bytes:
    return prefix + struct.pack(">IB", index, is_last)
