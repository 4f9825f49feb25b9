"""Where do the files of a build lie that nobody keeps, and who removes them where it was killed?

In folders of the system's folder for temporary files, each locked (flock(2)) for as long as its process lives. One that
nobody holds was left by a process that was killed, and the next build removes it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "shoal-convert-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder that is removed, with all that it holds, when the block is left."""
    with contextlib.ExitStack() as held:
        folder = _make(held)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # a child that isn't quite dead may still write


def remove_abandoned() -> None:
    """Remove this user's scratch folders that no living process holds, as far as that can be done."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Held by a living process, of another user, or gone already.
        with contextlib.suppress(OSError), _locked(folder) as status:
            if status.st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def _make(held: contextlib.ExitStack) -> Path:
    """A folder whose lock is kept as long as `held`."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Until it is locked, somebody may take it for abandoned: then another.
        with contextlib.suppress(FileNotFoundError, BlockingIOError), contextlib.ExitStack() as opened:
            status = opened.enter_context(_locked(folder))
            if os.path.samestat(status, folder.stat()):
                held.push(opened.pop_all())
                return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[os.stat_result]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield os.fstat(descriptor)
    finally:
        os.close(descriptor)
