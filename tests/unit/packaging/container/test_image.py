"""Does an image hold what it should, whoever makes it and when?"""

import importlib.util
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

CONTAINER = Path(__file__).resolve().parents[4] / "packaging" / "container"
EPOCH = 1_700_000_000


def load(name: str) -> ModuleType:
    """A program of the folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"container_{name}", CONTAINER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


image = load("image")
rootfs = load("rootfs")


def make_tree(folder: Path, *, mode: int) -> Path:
    """A small tree, with modes and times that depend on who made it."""
    (folder / "site-packages" / "pond").mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in ("b.py", "a.py"):
        (folder / "site-packages" / "pond" / name).write_text(f"# {name}\n")
        (folder / "site-packages" / "pond" / name).chmod(mode)
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3.11")
    return folder


def entries(layer: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer) as archive:
        return {entry.name: entry for entry in archive.getmembers()}


def test_the_same_files_make_the_same_layer_whoever_unpacked_them(tmp_path: Path) -> None:
    for name, mode in (("one", 0o600), ("two", 0o664)):
        tree = make_tree(tmp_path / name, mode=mode)
        image.write_layer(tmp_path / f"{name}.tar", image.IMAGES["fleet"], tree=tree, epoch=EPOCH)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_programs_belong_to_root_and_volumes_to_the_user_alone(tmp_path: Path) -> None:
    image.write_layer(
        tmp_path / "layer.tar", image.IMAGES["fleet"], tree=make_tree(tmp_path / "t", mode=0o777), epoch=1
    )
    found = entries(tmp_path / "layer.tar")
    state, module = found["var/lib/shoal-fleet"], found["opt/shoal/site-packages/pond/a.py"]
    assert (state.uid, state.gid, state.mode) == (image.USER_ID, image.USER_ID, 0o700)
    assert (module.uid, module.gid, module.mode) == (0, 0, 0o644)
    assert found["usr/local/bin/shoal-fleet"].mode == 0o755
    assert found["opt/shoal/bin/python3"].linkname == "/usr/bin/python3.11"
    assert {entry.mtime for entry in found.values()} == {1}


@pytest.mark.parametrize("kind", sorted(image.IMAGES))
def test_what_is_started_is_in_the_image(tmp_path: Path, kind: str) -> None:
    one = image.IMAGES[kind]
    image.write_layer(tmp_path / "layer.tar", one, tree=None, epoch=EPOCH)
    assert f"usr/local/bin/{one.entry}" in entries(tmp_path / "layer.tar")
    assert "tini" in one.packages


def test_both_files_know_the_same_user() -> None:
    assert image.USER_ID == rootfs.USER_ID
    assert image.ARCHITECTURES == rootfs.ARCHITECTURES


def test_an_image_has_its_name_where_each_program_looks(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    manifest = {"config": {"digest": "sha256:c0"}, "layers": [{"digest": "sha256:a0"}, {"digest": "sha256:a1"}]}
    (blobs / "ma").write_text(json.dumps(manifest))
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:ma"}]}))
    image.name_image(tmp_path, name="localhost/shoal-pond:1")
    (for_docker,) = json.loads((tmp_path / "manifest.json").read_text())
    assert for_docker == {
        "Config": "blobs/sha256/c0",
        "RepoTags": ["localhost/shoal-pond:1"],
        "Layers": ["blobs/sha256/a0", "blobs/sha256/a1"],
    }
    (descriptor,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert set(descriptor["annotations"].values()) == {"localhost/shoal-pond:1"}


def test_only_sources_of_the_release_are_taken() -> None:
    targets = [
        "http://archive.example/debian bookworm main",
        "http://archive.example/debian bookworm-updates main",
        "http://archive.example/debian bookworm main",
        "http://other.example/tools nodistro main",
        "http://archive.example/debian trixie main",
    ]
    lines = rootfs.choose_sources(targets, suite="bookworm").splitlines()
    assert [line.partition("] ")[2] for line in lines] == targets[:2]
    assert all("signed-by=" in line for line in lines)


def test_without_a_source_it_is_said_what_to_do() -> None:
    with pytest.raises(rootfs.CantMake, match="apt-get update"):
        rootfs.choose_sources([], suite="bookworm")


@pytest.mark.parametrize(
    "text",
    ['ID=ubuntu\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu"\n', "ID=debian\nVERSION_CODENAME=bullseye\n", ""],
)
def test_another_system_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "os-release").write_text(text)
    with pytest.raises(rootfs.CantMake, match="images are made on Debian bookworm or trixie"):
        rootfs.find_suite(tmp_path / "os-release")


def test_debian_is_known(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian"\n')
    assert rootfs.find_suite(tmp_path / "os-release") == "trixie"
