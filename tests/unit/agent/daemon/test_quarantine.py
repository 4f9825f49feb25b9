"""Are deaths counted by item over restarts, and bounded?"""

import errno
import hashlib
import os
from pathlib import Path

from shoal_agent.daemon.quarantine import MAX_ITEMS, Quarantine
from shoal_agent.files import DiskFiles
from shoal_wire.messages import ReleaseReference

ONE, TWO = (ReleaseReference("notes", version, f"{version}" * 64) for version in (1, 2))


def item(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def test_counts_go_over_restarts_and_releases(tmp_path: Path) -> None:
    assert Quarantine(DiskFiles(), tmp_path).note(item(1), reference=ONE, at=1.0) == 1
    again = Quarantine(DiskFiles(), tmp_path)
    assert again.note(item(1), reference=TWO, at=2.0) == 2
    assert again.note(item(2), reference=TWO, at=2.0) == 1
    assert Quarantine(DiskFiles(), tmp_path).deaths == {item(1): 2, item(2): 1}


def test_newest_are_kept(tmp_path: Path) -> None:
    quarantine = Quarantine(DiskFiles(), tmp_path)
    for number in range(MAX_ITEMS + 1):
        quarantine.note(item(number), reference=ONE, at=1.0)
    deaths = Quarantine(DiskFiles(), tmp_path).deaths
    assert len(deaths) == MAX_ITEMS and item(0) not in deaths and item(MAX_ITEMS) in deaths


def test_damaged_file_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "quarantine.json").write_bytes(b'{"format":1,"items":[{')
    quarantine = Quarantine(DiskFiles(), tmp_path)
    assert quarantine.deaths == {}
    assert quarantine.note(item(1), reference=ONE, at=1.0) == 1


class FullDisk(DiskFiles):
    """Takes nothing."""

    def write(self, path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    quarantine = Quarantine(FullDisk(), tmp_path)
    assert quarantine.note(item(1), reference=ONE, at=1.0) == 1
    assert quarantine.deaths == {item(1): 1}
