"""Which bytes of a sealed file does each digest of its manifest cover? Rules only."""

import hashlib

from shoal_wire.manifest import SealedFile
from shoal_wire.sealed_file import HEADER_BYTES, MAX_CHUNK_BYTES, TAG_BYTES, chunk_range

from shoal_agent.updater.errors import Refused


def chunk_ranges(file: SealedFile) -> list[tuple[int, int]]:
    """First byte and end (exclusive) of every chunk; together they are the whole file.

    Raises:
        Refused: size, chunk size and number of digests contradict each other.
    """
    if file.chunk_bytes > MAX_CHUNK_BYTES:
        raise Refused(f"file {file.name}: chunks of {file.chunk_bytes} bytes, expected at most {MAX_CHUNK_BYTES}")
    chunks = max(1, -(-(file.ciphertext_bytes - HEADER_BYTES) // (file.chunk_bytes + TAG_BYTES)))
    if file.ciphertext_bytes <= HEADER_BYTES or chunks != len(file.chunk_sha256s):
        raise Refused(
            f"file {file.name}: {file.ciphertext_bytes} bytes make {chunks} chunks of {file.chunk_bytes}, "
            f"its manifest has digests of {len(file.chunk_sha256s)}"
        )
    return [
        chunk_range(index=index, chunk_bytes=file.chunk_bytes, ciphertext_bytes=file.ciphertext_bytes)
        for index in range(chunks)
    ]


def is_chunk(file: SealedFile, data: bytes | bytearray, *, index: int) -> bool:
    """Whether these bytes are chunk `index` of the file."""
    return hashlib.sha256(data).hexdigest() == file.chunk_sha256s[index]
