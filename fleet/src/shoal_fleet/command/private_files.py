"""How does a secret get to disk, whole or not at all, for its owner alone?"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter. One that is there already keeps its mode."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file in one step: of mode 0600 whatever the old one had, and on disk when this returns.

    Raises:
        OSError: nothing was replaced.
    """
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """The same for what is written bit by bit. An exception leaves the old file as it is."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
