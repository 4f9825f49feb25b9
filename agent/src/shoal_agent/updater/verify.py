"""Are the bytes of a sealed file on the disk those that its manifest names?"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from shoal_wire.manifest import SealedFile

from shoal_agent.files import Files
from shoal_agent.updater.chunks import chunk_ranges, is_chunk


def find_damage(file: SealedFile, path: Path, *, files: Files, pulse: Callable[[], None]) -> str | None:
    """What is wrong with the file, in words; None when each chunk and the whole are as sealed.

    `pulse` is called between chunks, so that the daemon is heard.
    """
    size_bytes = files.size(path)
    if size_bytes != file.ciphertext_bytes:
        return f"file {file.name}: expected {file.ciphertext_bytes} bytes on disk, found {size_bytes}"
    whole = hashlib.sha256()
    for index, (start, end) in enumerate(chunk_ranges(file)):
        chunk = files.read_range(path, start=start, size=end - start)
        if not is_chunk(file, chunk, index=index):
            return f"file {file.name}: chunk {index} of {len(file.chunk_sha256s)} on disk isn't what was sealed"
        whole.update(chunk)
        pulse()
    if whole.hexdigest() != file.ciphertext_sha256:
        return f"file {file.name}: its chunks are as the manifest says and the whole isn't: the manifest is wrong"
    return None
