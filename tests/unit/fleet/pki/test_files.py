"""Does a written file replace the old one whole, with no wider rights?"""

import os
import stat
from pathlib import Path

import pytest
from shoal_fleet.pki.files import PRIVATE, PUBLIC, make_private_folder, write_whole


@pytest.mark.parametrize("mode", [PRIVATE, PUBLIC])
def test_has_the_mode_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0)
    try:
        write_whole(tmp_path / "key", b"secret", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == mode


def test_replaces_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "key", b"old")
    write_whole(tmp_path / "key", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"key": b"new"}


def test_failure_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "key", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_narrows_a_folder_that_was_open(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    make_private_folder(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
