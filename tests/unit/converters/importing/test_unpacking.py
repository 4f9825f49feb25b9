"""Does an archive stay in its folder and within its bounds?"""

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.errors import BadModel
from shoal_converters.importing.unpacking import place_inside, unpack_tar

LIMIT = 1 << 20


def pack(folder: Path, *members: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w:gz") -> Path:
    path = folder / "layer.tar"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, *, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("mode", ["w:", "w:gz"])
def test_unpacks_files_and_folders(tmp_path: Path, mode: str) -> None:
    archive = pack(tmp_path, link("net", kind=tarfile.DIRTYPE), ("./net/a.onnx", b"abc"), ("b/c.txt", b"d"), mode=mode)
    assert unpack_tar(archive, tmp_path / "out", limit_bytes=LIMIT) == 4
    assert (tmp_path / "out/net/a.onnx").read_bytes() == b"abc"
    assert (tmp_path / "out/b/c.txt").read_bytes() == b"d"


@pytest.mark.parametrize("name", ["../a", "/etc/a", "a/../../b", "a\\..\\b", "/".join("a" * 40), "a" * 300])
def test_refuses_names_that_lead_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadModel, match="leads out of the folder"):
        unpack_tar(pack(tmp_path, (name, b"x")), tmp_path / "out", limit_bytes=LIMIT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layer.tar"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_refuses_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadModel, match="is no plain file"):
        unpack_tar(pack(tmp_path, link("a", kind=kind)), tmp_path / "out", limit_bytes=LIMIT)


def test_refuses_more_bytes_than_allowed(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="unpacks to more than 1000 bytes"):
        unpack_tar(pack(tmp_path, ("a", bytes(600)), ("b", bytes(600))), tmp_path / "out", limit_bytes=1000)


def test_refuses_the_same_name_twice(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="there twice"):
        unpack_tar(pack(tmp_path, ("a", b"1"), ("a", b"2")), tmp_path / "out", limit_bytes=LIMIT)


def test_refuses_a_header_that_claims_gigabytes(tmp_path: Path) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2 << 30
    path = tmp_path / "layer.tar"
    path.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(BadModel, match="a header of 2147483648 bytes"):
        unpack_tar(path, tmp_path / "out", limit_bytes=LIMIT)


def test_refuses_cut_and_other_files(tmp_path: Path) -> None:
    path = pack(tmp_path, ("a", bytes(range(256)) * 100))
    raw = path.read_bytes()
    for broken in (raw[: len(raw) // 2], b"no archive" * 100):
        path.write_bytes(broken)
        with pytest.raises(BadModel, match="broken or cut"):
            unpack_tar(path, tmp_path / "out", limit_bytes=LIMIT)


@given(st.text(max_size=60))
def test_a_name_is_placed_inside_or_refused(name: str) -> None:
    folder = Path("/folder")
    try:
        placed = place_inside(folder, name, what="archive")
    except BadModel:
        return
    assert Path(*[part for part in placed.parts if part != ".."]) == placed
    assert placed.is_relative_to(folder)
