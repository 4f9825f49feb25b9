"""How is a file written so that a power cut leaves the old one or the new one, whole?"""

import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644


def make_private_folder(folder: Path) -> None:
    """Make the folder and what leads to it; only the owner may enter it. Existing folders are narrowed too."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_whole(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Replace a file in one step, on disk when this returns. The file never has a wider mode than `mode`.

    Raises:
        OSError: nothing was replaced.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put on disk which names a folder holds."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
