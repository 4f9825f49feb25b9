"""Can a file be replaced durably where the probe runs, and is that a real disk?

Every file that the agent must not lose is written like this: write, fsync, rename, fsync of the folder.
"""

import json
import os
import tempfile
from pathlib import Path


def filesystem_of(folder: Path) -> str:
    """Return the type of the filesystem that holds a folder, from the kernel's list of mounts."""
    best_mount, best_kind = Path("/"), "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, kind, *_ = line.split(" ")
        if folder.is_relative_to(mount) and len(mount) >= len(str(best_mount)):
            best_mount, best_kind = Path(mount), kind
    return best_kind


with tempfile.TemporaryDirectory(dir=".") as name:
    folder = Path(name).resolve()
    target = folder / "journal"
    target.write_bytes(b"before")
    with (folder / "journal.new").open("wb") as new:
        new.write(b"after")
        new.flush()
        os.fsync(new.fileno())
    Path(new.name).replace(target)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder_fd)
    os.close(folder_fd)
    print(json.dumps({"content": target.read_text(), "filesystem": filesystem_of(folder)}))
