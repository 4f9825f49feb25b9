"""How does a release get into a folder, whole or not at all?"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shoal_wire.encoding import encode
from shoal_wire.manifest import ReleaseDraft

from shoal_converters.errors import BuildFailed

DRAFT = "release.json"


def write_release(
    draft: ReleaseDraft, contents: Mapping[str, bytes], *, folder: Path, beside: Mapping[str, bytes] | None = None
) -> None:
    """Write release.json and the draft's files beside `folder`, then move them there, replacing an earlier release.

    `contents` has the bytes of each file by its name, and may have more; `beside` are further files, such as a report.

    Raises:
        BuildFailed: it can't be written, or `folder` holds something else than a release.
    """
    files = {file.path: contents[file.name] for file in draft.files}
    write_folder(files | dict(beside or {}) | {DRAFT: encode(draft)}, folder=folder, mark=DRAFT)


def write_folder(files: Mapping[str, bytes], *, folder: Path, mark: str) -> None:
    """Write files by name beside `folder`, then move them there; what was there, if it has the file `mark`, goes.

    Raises:
        BuildFailed: it can't be written, or `folder` holds something else; what was there before still is.
    """
    check_replaceable(folder, mark=mark)
    fresh, earlier = (folder.with_name(f".{folder.name}-{os.getpid()}-{which}") for which in ("new", "earlier"))
    with _told(folder):
        try:
            fresh.mkdir(parents=True)
            for name, content in files.items():
                _write(fresh / name, content)
            if folder.exists():
                folder.rename(earlier)
            fresh.rename(folder)
        finally:
            if earlier.exists() and not folder.exists():
                earlier.rename(folder)
            for left in (fresh, earlier):
                shutil.rmtree(left, ignore_errors=True)


def check_replaceable(folder: Path, *, mark: str = DRAFT) -> None:
    """Make sure that nothing but an earlier folder with the file `mark` would be lost by writing one to `folder`.

    Raises:
        BuildFailed: it is a file, or a folder that holds something else.
    """
    with _told(folder):
        if folder.exists() and not folder.is_dir():
            raise BuildFailed(f"{folder}: is a file; name a folder")
        if folder.exists() and any(folder.iterdir()) and not (folder / mark).is_file():
            raise BuildFailed(f"{folder}: holds other things than a {mark}; name an empty or a new folder")


def check_writable(folder: Path) -> None:
    """Make sure that a folder could be made at this place, before hours are spent on what goes there.

    Raises:
        BuildFailed: it couldn't.
    """
    with _told(folder):
        above = next(place for place in folder.parents if place.exists())
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=above):
            pass


def remove_folder(folder: Path, *, mark: str) -> None:
    """Remove a folder that has the file `mark`, if there is one.

    Raises:
        BuildFailed: it can't be removed.
    """
    with _told(folder):
        if (folder / mark).is_file():
            shutil.rmtree(folder)


def _write(path: Path, content: bytes) -> None:
    """On disk, not only on its way there: what is sealed later is read from it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildFailed(f"{folder}: can't be written: {error.strerror or error}") from error
