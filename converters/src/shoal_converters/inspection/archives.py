"""How is a zip file from outside read with bounded memory?"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal_converters.errors import BadModel

MAX_MEMBERS = 100_000
BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OverflowError)
"""What the standard library raises for broken, encrypted and unknown members."""


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip file, for as long as the block lasts.

    Raises:
        BadModel: broken, cut short, or with too many members; also where reading a member fails inside the block.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_MEMBERS:
                raise BadModel(f"{path}: {len(archive.infolist())} members, expected at most {MAX_MEMBERS}")
            yield archive
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    except BROKEN as error:
        raise BadModel(f"{path}: a broken or cut zip file ({error})") from None


def read_member(archive: zipfile.ZipFile, name: str, *, limit_bytes: int, what: str) -> bytes:
    """The bytes of a member, whatever size it claims.

    Raises:
        BadModel: there is no such member, or it has more than `limit_bytes`.
        And what `open_archive` translates.
    """
    try:
        with archive.open(name) as member:
            content = member.read(limit_bytes + 1)
    except KeyError:
        raise BadModel(f"{what}: expected {name} inside, which is missing") from None
    except BROKEN as error:
        raise BadModel(f"{what}: {name} inside is broken ({error})") from None
    if len(content) > limit_bytes:
        raise BadModel(f"{what}: {name} inside has more than {limit_bytes} bytes")
    return content


def find_member(archive: zipfile.ZipFile, ending: str) -> str:
    """The first member, by name, whose name ends so; empty where there is none."""
    return min((name for name in archive.namelist() if name.endswith(ending)), default="")
