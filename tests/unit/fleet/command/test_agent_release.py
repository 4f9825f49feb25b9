"""Do trees become archives that a board unpacks, and is what isn't a tree refused with words?"""

import json
import lzma
import shutil
import tarfile
from pathlib import Path

import pytest
from shoal_fleet.command.agent_release import pack, read_sources
from shoal_fleet.command.cli import main
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.sealing import read_draft
from shoal_wire.agent_release import parse_contents


def make_tree(folder: Path, *, version: str = "0.2.0", python: str = "311", machine: str = "x86_64") -> Path:
    """As packaging/tree.py lays it out."""
    packages = folder / "site-packages"
    for path, data in {
        f"shoal_agent-{version}.dist-info/METADATA": b"Name: shoal-agent\n",
        "shoal_agent/cli.py": b"print('started')\n",
        f"msgspec/_core.cpython-{python}-{machine}-linux-gnu.so": b"\x7fELF",
    }.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_bytes(data)
    (folder / "licences").mkdir()
    (folder / "licences" / "packages.json").write_text("[]")
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3.11")
    (folder / "lib" / "python3.11").mkdir(parents=True)
    (folder / "lib" / "python3.11" / "site-packages").symlink_to("../../site-packages")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder


def test_an_archive_holds_the_plain_files_and_their_list_and_is_the_same_each_time(tmp_path: Path) -> None:
    (source,) = read_sources([make_tree(tmp_path / "tree")])
    assert (source.version, source.machine, source.python) == ("0.2.0", "x86_64", "3.11")
    tree = pack(source, tmp_path / "one")
    with lzma.open(tmp_path / "one") as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        found = {member.name: file.read() for member in archive if (file := archive.extractfile(member)) is not None}
    contents = parse_contents(found.pop("tree.json"))
    assert set(found) == set(contents.files)
    assert found["site-packages/shoal_agent/cli.py"] == b"print('started')\n"
    assert not {name for name in found if not name.startswith(("site-packages/", "licences/"))}
    assert tree.unpacked_bytes == len(lzma.decompress((tmp_path / "one").read_bytes()))

    again = shutil.copytree(tmp_path / "tree", tmp_path / "again", symlinks=True)
    pack(read_sources([again])[0], tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_release_folder_is_made_that_can_be_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = [
        str(make_tree(tmp_path / machine, machine=machine, python=python))
        for machine, python in (("x86_64", "311"), ("aarch64", "313"))
    ]
    out = tmp_path / "release"
    words = ["release", "agent", *trees, "--version", "3", "--floor", "2", "--state-formats", "1-2", "--out", str(out)]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "0.2.0"
    draft = read_draft(out)
    assert draft.agent is not None and draft.critical == ("agent",)
    assert (draft.name, draft.version, draft.agent.floor) == ("shoal-agent", 3, 2)
    assert (draft.agent.oldest_state, draft.agent.newest_state) == (1, 2)
    assert [(tree.machine, tree.python) for tree in draft.agent.trees] == [("aarch64", "3.13"), ("x86_64", "3.11")]
    assert sorted(path.name for path in out.iterdir()) == [
        "agent-aarch64-3.13.tar.xz",
        "agent-x86_64-3.11.tar.xz",
        "release.json",
    ]
    assert main(words) == 2, "the folder is there already"


def test_what_is_no_tree_is_refused_with_words(tmp_path: Path) -> None:
    tree, twin, newer = (
        make_tree(tmp_path / name, version=version)
        for name, version in (("tree", "0.2.0"), ("twin", "0.2.0"), ("newer", "0.3.0"))
    )
    with pytest.raises(UsageError, match="two trees for one machine and Python"):
        read_sources([tree, twin])
    with pytest.raises(UsageError, match=r"trees of several versions of the agent: 0\.2\.0, 0\.3\.0"):
        read_sources([tree, newer])
    with pytest.raises(UsageError, match=r"expected a tree of the agent .* found 0 agents, compiled for nothing"):
        read_sources([tmp_path])
    odd = make_tree(tmp_path / "odd", version="0.2.0rc1")
    with pytest.raises(UsageError, match="is no version of the agent"):
        read_sources([odd])
    (twin / "site-packages" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="is a link: a tree holds plain files only"):
        pack(read_sources([twin])[0], tmp_path / "archive")
