"""How does the agent write to disk so that power may go at any instant?

Every durable write of the agent goes through `Files`. What a call has returned from is on the disk: file and folder are
synced. Tests replace it by one that forgets whatever wasn't synced, or that stops before or after a given write.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Protocol


def temporary_path(path: Path) -> Path:
    """Where `Files.write` puts what isn't whole yet: a process that is killed may leave it there."""
    return path.with_name(f".{path.name}.new")


class Files(Protocol):
    """The operations on disk that the agent relies on."""

    def read(self, path: Path) -> bytes:
        """The whole file. Raises FileNotFoundError."""

    def read_range(self, path: Path, *, start: int, size: int) -> bytes:
        """Up to `size` bytes from byte `start` on; fewer at the end of the file. Raises FileNotFoundError."""

    def size(self, path: Path) -> int:
        """Bytes in the file, 0 where there is none."""

    def free_bytes(self, folder: Path) -> int:
        """What this user may still write to the file system of `folder`, which need not be there yet."""

    def write(self, path: Path, data: bytes) -> None:
        """Put `data` at `path`, whole or not at all; mode 0600."""

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        """Write `data` at byte `at` of a file that grows, and cut it off after that; whole only once it returned."""

    def move(self, source: Path, target: Path) -> None:
        """Give a finished file its name; what had that name is gone."""

    def remove(self, path: Path) -> None:
        """Forget a file, which need not be there."""

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; none where there is no folder."""

    def sync(self, folder: Path) -> None:
        """Put on the disk what other software wrote to the files of a folder; those in its folders are left out."""

    def sync_all(self, folder: Path) -> None:
        """Put on the disk whatever lies in a folder, at any depth."""

    def link(self, path: Path, target: str) -> None:
        """Have `path` be a symbolic link to `target`, at once in place of what had that name."""

    def make_folder(self, folder: Path) -> None:
        """Have a folder there, which may be there already, with those that it lies in; mode 0700."""

    def remove_folder(self, folder: Path) -> None:
        """Forget a folder with all that is in it, which need not be there."""


class DiskFiles:
    """The real disk."""

    def read(self, path: Path) -> bytes:
        """See `Files`."""
        return path.read_bytes()

    def read_range(self, path: Path, *, start: int, size: int) -> bytes:
        """See `Files`."""
        with path.open("rb") as file:
            file.seek(start)
            return file.read(size)

    def size(self, path: Path) -> int:
        """See `Files`."""
        return path.stat().st_size if path.exists() else 0

    def free_bytes(self, folder: Path) -> int:
        """See `Files`."""
        while not folder.is_dir():
            folder = folder.parent
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize

    def write(self, path: Path, data: bytes) -> None:
        """See `Files`. A temporary file beside it is synced, renamed, and the folder synced."""
        temporary = temporary_path(path)
        self._write_synced(temporary, data, at=0)
        self.move(temporary, path)

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        """See `Files`. An empty file may lack its name on the disk: a process was killed before it had synced it."""
        if self.size(path) == 0:
            self._create(path)
        self._write_synced(path, data, at=at)

    def move(self, source: Path, target: Path) -> None:
        """See `Files`."""
        source.replace(target)
        _sync(target.parent)

    def remove(self, path: Path) -> None:
        """See `Files`. One that isn't there may be on the disk: a process was killed before it had synced that."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink(missing_ok=True)
            _sync(path.parent)

    def names(self, folder: Path) -> list[str]:
        """See `Files`."""
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def sync(self, folder: Path) -> None:
        """See `Files`."""
        for entry in folder.iterdir():
            if entry.is_file():
                _sync(entry)
        _sync(folder)

    def sync_all(self, folder: Path) -> None:
        """See `Files`."""
        for place, _, names in os.walk(folder, topdown=False):
            for name in names:
                path = Path(place, name)
                if not path.is_symlink():
                    _sync(path)
            _sync(Path(place))

    def link(self, path: Path, target: str) -> None:
        """See `Files`."""
        temporary = temporary_path(path)
        _make_folder(path.parent)
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        self.move(temporary, path)

    def make_folder(self, folder: Path) -> None:
        """See `Files`."""
        _make_folder(folder)

    def remove_folder(self, folder: Path) -> None:
        """See `Files`. As `remove`."""
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        with contextlib.suppress(FileNotFoundError):
            _sync(folder.parent)

    def _create(self, path: Path) -> None:
        _make_folder(path.parent)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        _sync(path.parent)

    def _write_synced(self, path: Path, data: bytes, *, at: int) -> None:
        _make_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.lseek(descriptor, at, os.SEEK_SET)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.ftruncate(descriptor, at + len(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
