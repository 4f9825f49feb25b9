"""A folder is replaced whole or not at all, and only one that holds what is replaced."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from shoal_converters.errors import BuildFailed
from shoal_converters.release_folder import check_replaceable, check_writable, remove_folder, write_folder

MARK = "release.json"
EARLIER = {MARK: b"1", "old": b"old"}


class Interrupted(Mapping[str, bytes]):
    """Files of which the second never comes."""

    def __getitem__(self, name: str) -> bytes:
        if name != MARK:
            raise KeyboardInterrupt
        return b"2"

    def __iter__(self) -> Iterator[str]:
        return iter((MARK, "new"))

    def __len__(self) -> int:
        return 2


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(EARLIER, folder=tmp_path / "in" / "out", mark=MARK)
    return tmp_path / "in" / "out"


def test_an_earlier_folder_is_replaced_with_all_its_files(folder: Path) -> None:
    assert read(folder) == EARLIER
    write_folder({MARK: b"2", "new": b"new"}, folder=folder, mark=MARK)
    assert read(folder) == {MARK: b"2", "new": b"new"}
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("files", "error"),
    [(Interrupted(), KeyboardInterrupt), ({MARK: b"2", "n" * 300: b""}, BuildFailed)],
    ids=["interrupted", "file that can't be written"],
)
def test_what_was_there_stays_where_something_goes_wrong(
    folder: Path, files: Mapping[str, bytes], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        write_folder(files, folder=folder, mark=MARK)
    assert read(folder) == EARLIER
    assert list(folder.parent.iterdir()) == [folder]


def test_nothing_else_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BuildFailed, match=r"holds other things than a release\.json"):
        write_folder(EARLIER, folder=tmp_path, mark=MARK)
    with pytest.raises(BuildFailed, match="is a file"):
        check_replaceable(tmp_path / "thesis.tex")
    assert read(tmp_path) == {"thesis.tex": b"mine"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(EARLIER, folder=tmp_path / "out", mark=MARK)
    assert read(tmp_path / "out") == EARLIER


def test_a_place_where_no_folder_can_be_made_is_found_out_without_leaving_one(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b" / "out")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BuildFailed, match="/proc/shoal/out: can't be written"):
        check_writable(Path("/proc/shoal/out"))


def test_only_a_folder_with_the_mark_is_removed(folder: Path) -> None:
    remove_folder(folder, mark="report.json")
    assert read(folder) == EARLIER
    remove_folder(folder, mark=MARK)
    assert not folder.exists()
