"""Does the file layer do what everything on a board relies on?"""

import stat
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from shoal_agent.files import DiskFiles, temporary_path

FILES = DiskFiles()


def test_written_file_is_whole_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "slots.json"
    FILES.write(path, b"first, and longer")
    FILES.write(path, b"second")
    assert FILES.read(path) == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert FILES.names(path.parent) == ["slots.json"]


def test_leftover_of_a_write_that_was_cut_short_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "slots.json"
    temporary_path(path).write_bytes(b"a long beginning that nobody finished")
    FILES.write(path, b"whole")
    assert FILES.read(path) == b"whole"
    assert FILES.names(tmp_path) == ["slots.json"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.binary(max_size=50), added=st.binary(max_size=50), data=st.data())
def test_append_cuts_off_what_lies_behind(tmp_path: Path, before: bytes, added: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(before)))
    path = tmp_path / "part"
    path.write_bytes(before)
    FILES.append(path, added, at=at)
    assert FILES.read(path) == before[:at] + added


def test_range_ends_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    FILES.write(path, b"0123456789")
    assert FILES.read_range(path, start=2, size=3) == b"234"
    assert FILES.read_range(path, start=8, size=5) == b"89"
    assert FILES.read_range(path, start=20, size=5) == b""


def test_what_is_not_there(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert FILES.size(gone) == 0
    assert FILES.names(gone) == []
    FILES.remove(gone)
    with pytest.raises(FileNotFoundError):
        FILES.read(gone)


def test_free_bytes_of_a_folder_that_is_not_there_yet_are_those_of_its_file_system(tmp_path: Path) -> None:
    assert FILES.free_bytes(tmp_path / "a" / "b") > 0


def test_moved_file_replaces_what_had_the_name(tmp_path: Path) -> None:
    FILES.write(tmp_path / "a", b"a")
    FILES.write(tmp_path / "b", b"b")
    FILES.move(tmp_path / "a", tmp_path / "b")
    assert FILES.names(tmp_path) == ["b"]
    assert FILES.read(tmp_path / "b") == b"a"


def test_sync_leaves_contents_alone(tmp_path: Path) -> None:
    (tmp_path / "root.json").write_bytes(b"root")
    (tmp_path / "folder").mkdir()
    FILES.sync(tmp_path)
    assert FILES.read(tmp_path / "root.json") == b"root"
