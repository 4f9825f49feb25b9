"""Does an archive become the tree that it lists, and does nothing else come of one that isn't as it should be?"""

import lzma
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.updater.errors import Refused, Superseded
from shoal_agent.updater.unpacking import find_difference, unpack
from shoal_wire.agent_release import AgentTree

from tests.unit.agent.updater.trees import FILES, archive, described, listing, member, tar


def quiet() -> None:
    pass


def pieces(packed: bytes, *, size: int = 1000) -> Iterator[bytes]:
    return (packed[start : start + size] for start in range(0, len(packed), size))


def unpacked(packed: bytes, folder: Path, *, expected: AgentTree | None = None, version: str = "0.2.0") -> list[str]:
    """Paths of all files and links in the tree."""
    folder.mkdir()
    unpack(pieces(packed), folder, expected=expected or described(packed), version=version, pulse=quiet)
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()
    )


def test_files_are_as_listed_and_an_interpreter_finds_them_and_nothing_else(tmp_path: Path) -> None:
    found = unpacked(archive(), tmp_path / "tree")
    made = {"bin/python3", "lib/python3.11/site-packages", "pyvenv.cfg", "tree.json"}
    assert set(found) == {*FILES, *made}
    assert {name: (tmp_path / "tree" / name).read_bytes() for name in FILES} == FILES
    ask = "import shoal_agent, sys; print(shoal_agent.__path__[0]); print(sys.prefix)"
    interpreter = str(tmp_path / "tree" / "bin" / "python3")
    said = subprocess.run([interpreter, "-I", "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout
    package, prefix = said.splitlines()
    assert os.path.realpath(package) == str((tmp_path / "tree" / "site-packages" / "shoal_agent").resolve())
    assert prefix == str(tmp_path / "tree")


@given(size=st.integers(1, 4000))
def test_it_does_not_matter_in_which_pieces_the_archive_comes(
    size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packed, folder = archive(), tmp_path_factory.mktemp("tree")
    contents = unpack(pieces(packed, size=size), folder, expected=described(packed), version="0.2.0", pulse=quiet)
    assert find_difference(folder, contents, pulse=quiet) is None


def compressed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    return lzma.compress(tar(list(members)))


LIST = listing({"a": b"aaa", "b": b"bb"})
FIRST, A, B = member("tree.json", LIST), member("a", b"aaa"), member("b", b"bb")
OUTSIDE = listing({"../a": b"aaa"})
WRONG: dict[str, tuple[bytes, str]] = {
    "no-list": (compressed(A, B), r"expected tree\.json to be its first file"),
    "empty": (compressed(), r"expected tree\.json to be its first file"),
    "list-that-is-none": (compressed(member("tree.json", b"[]"), A), r"tree\.json"),
    "path-outside": (compressed(member("tree.json", OUTSIDE), member("../a", b"aaa")), "no path of a file within"),
    "file-not-listed": (compressed(FIRST, A, B, member("c", b"c")), "'c' isn't among its files"),
    "twice": (compressed(FIRST, A, A, B), "'a' isn't among its files"),
    "missing": (compressed(FIRST, A), "lacks 1 of its files, as 'b'"),
    "other-size": (compressed(FIRST, A, member("b", b"bbb")), "'b' isn't among its files, or not as it is listed"),
    "other-bytes": (compressed(FIRST, A, member("b", b"cc")), "'b' has another digest"),
    "link": (compressed(FIRST, A, member("b", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "'b' isn't among"),
    "hard-link": (compressed(FIRST, A, member("b", type=tarfile.LNKTYPE, linkname="a")), "'b' isn't among"),
    "device": (compressed(FIRST, A, member("b", type=tarfile.CHRTYPE)), "'b' isn't among"),
    "folder": (compressed(FIRST, A, B, member("c", type=tarfile.DIRTYPE)), "'c' isn't among"),
    "list-that-is-a-link": (compressed(member("tree.json", type=tarfile.SYMTYPE, linkname="a")), "is no plain file"),
    "other-version": (compressed(member("tree.json", listing({"a": b"aaa"}, version="0.3.0")), A), "is of 0.3.0, x86"),
    "other-machine": (compressed(member("tree.json", listing({"a": b"aaa"}, machine="mips")), A), "mips, 3.11; the m"),
    "not-compressed": (tar([FIRST, A, B]), "can't be unpacked"),
    "cut": (archive()[:-200], "cut short"),
    "changed": (archive()[:300] + b"\0\0\0\0" + archive()[304:], "can't be unpacked|isn't|another"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_as_it_should_be_is_refused(name: str, tmp_path: Path) -> None:
    packed, message = WRONG[name]
    expected = AgentTree(machine="x86_64", python="3.11", file="agent", unpacked_bytes=1 << 20)
    with pytest.raises(Refused, match=message):
        unpacked(packed, tmp_path / "tree", expected=expected)
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]


def test_nothing_is_unpacked_beyond_what_the_manifest_promised(tmp_path: Path) -> None:
    files = {"site-packages/zeros": bytes(5 << 20)}
    packed = archive(files)
    with pytest.raises(Refused, match="unpacks to more than its manifest says"):
        unpacked(packed, tmp_path / "tree", expected=described(packed, unpacked_bytes=1 << 20))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 1 << 20


def test_a_newer_document_ends_it_between_two_files(tmp_path: Path) -> None:
    def supersede() -> None:
        raise Superseded("a newer desired document came")

    packed = archive()
    with pytest.raises(Superseded):
        unpack(pieces(packed), tmp_path, expected=described(packed), version="0.2.0", pulse=supersede)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "other-bytes": (lambda path: path.write_bytes(b"{}"), "gives back other bytes"),
    "gone": (lambda path: path.unlink(), "No such file"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_disk_that_gives_back_other_than_was_written_is_found(name: str, tmp_path: Path) -> None:
    change, message = CHANGES[name]
    packed = archive()
    contents = unpack(pieces(packed), tmp_path, expected=described(packed), version="0.2.0", pulse=quiet)
    change(tmp_path / "licences" / "packages.json")
    found = find_difference(tmp_path, contents, pulse=quiet)
    assert found is not None and message in found and "licences/packages.json" in found
