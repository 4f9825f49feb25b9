import json
import zipfile
from pathlib import Path

import pytest
from shoal_converters.errors import BadModel
from shoal_converters.paths.mlpackage import pack, unpack

WEIGHTS = "com.apple.CoreML/weights"


def make_package(folder: Path, *, number: str) -> Path:
    (folder / "Data" / WEIGHTS).mkdir(parents=True)
    (folder / "Data" / "com.apple.CoreML" / "notes.bin").write_bytes(b"weights")
    entries = {number: {"author": "com.apple.CoreML", "name": "weights", "path": WEIGHTS}}
    (folder / "Manifest.json").write_text(json.dumps({"itemInfoEntries": entries, "rootModelIdentifier": number}))
    return folder


def test_packages_that_differ_in_drawn_numbers_are_packed_alike(tmp_path: Path) -> None:
    first, second = (make_package(tmp_path / number, number=number) for number in ("one", "two"))

    assert pack(first) == pack(second)


def test_package_comes_back_with_its_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "packed.zip").write_bytes(pack(make_package(tmp_path / "package", number="one")))
    (tmp_path / "out").mkdir()

    unpack(tmp_path / "packed.zip", tmp_path / "out")

    assert (tmp_path / "out" / "Data" / WEIGHTS).is_dir()
    manifest = json.loads((tmp_path / "out" / "Manifest.json").read_text())
    assert list(manifest["itemInfoEntries"]) == [manifest["rootModelIdentifier"]]


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_refuses_entries_that_would_lie_elsewhere(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr(name, b"")
    (tmp_path / "out").mkdir()

    with pytest.raises(BadModel, match="outside of the package"):
        unpack(tmp_path / "packed.zip", tmp_path / "out")


def test_refuses_what_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "packed.zip").write_bytes(b"no zip file")

    with pytest.raises(BadModel, match="not a zip file of a Core ML package"):
        unpack(tmp_path / "packed.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("model.bin", b"")
    (tmp_path / "out").mkdir()
    with pytest.raises(BadModel, match=r"expected Manifest.json in it, found \['model.bin'\]"):
        unpack(tmp_path / "other.zip", tmp_path / "out")
