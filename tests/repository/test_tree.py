"""Is a tree of files the same however it was made, and is what can't be made refused in words?"""

import os
from pathlib import Path

import pytest
from tree import (
    CONTENTS,
    Unsupported,
    check_supported,
    collect_licences,
    digest_of,
    main,
    normalise,
    packaged_extras,
)

EPOCH = 1_700_000_000


def lay_out(tree: Path, *, mode: int) -> Path:
    package = tree / "site-packages" / "one"
    package.mkdir(parents=True)
    (package / "module.py").write_text("answer = 42\n")
    (package / "module.py").chmod(mode)
    (tree / "link").symlink_to("site-packages/one")
    return tree


def test_digest_is_the_same_wherever_and_however_a_tree_was_unpacked(tmp_path: Path) -> None:
    trees = [lay_out(tmp_path / "a", mode=0o755), lay_out(tmp_path / "b", mode=0o600)]
    for tree in trees:
        normalise(tree, epoch=EPOCH)

    assert digest_of(trees[0]) == digest_of(trees[1])
    files = [tree / "site-packages" / "one" / "module.py" for tree in trees]
    assert [path.stat().st_mode for path in files] == [0o100644, 0o100644]
    assert {os.lstat(path).st_mtime for tree in trees for path in tree.rglob("*")} == {EPOCH}


@pytest.mark.parametrize("change", ["content", "name", "link"])
def test_digest_tells_trees_apart(change: str, tmp_path: Path) -> None:
    one, other = lay_out(tmp_path / "one", mode=0o644), lay_out(tmp_path / "other", mode=0o644)
    module = other / "site-packages" / "one" / "module.py"
    if change == "content":
        module.write_text("answer = 43\n")
    elif change == "name":
        module.rename(module.with_name("another.py"))
    else:
        (other / "link").unlink()
        (other / "link").symlink_to("elsewhere")

    assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("machine", ["armhf", "armv7l", "armv6l"])
def test_32_bit_boards_are_refused_with_the_reason(machine: str) -> None:
    with pytest.raises(Unsupported, match="no wheels for 32-bit ARM: install a 64-bit system"):
        check_supported(machine=machine, python="3.11")


@pytest.mark.parametrize(("machine", "python"), [("riscv64", "3.11"), ("x86_64", "3.12")])
def test_other_machines_and_pythons_are_refused(machine: str, python: str) -> None:
    with pytest.raises(Unsupported, match=r"must be one of"):
        check_supported(machine=machine, python=python)


def test_command_says_why_and_ends_with_the_code_of_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["agent", "--machine", "armhf", "--python", "3.11", "--out", str(tmp_path / "tree")])

    assert code == 2
    assert "32-bit ARM" in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()


def test_extras_without_wheels_are_left_out_unless_asked_for() -> None:
    assert "pkcs11" in packaged_extras("agent", machine="x86_64", wanted=None)
    assert "pkcs11" not in packaged_extras("agent", machine="aarch64", wanted=None)
    assert packaged_extras("agent", machine="aarch64", wanted=["pkcs11"]) == ("pkcs11",)
    assert "onnxruntime" in CONTENTS["agent"].extras


def test_licences_are_collected_wherever_a_package_put_them(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    info = packages / "one-1.0.dist-info"
    (info / "licenses").mkdir(parents=True)
    (packages / "one").mkdir()
    for path in (info / "licenses" / "LICENSE", packages / "one" / "ThirdPartyNotices.txt", packages / "one" / "a.py"):
        path.write_text(path.name)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: one\nVersion: 1.0\nLicense-Expression: MIT\n")
    names = ("one-1.0.dist-info/licenses/LICENSE", "one/ThirdPartyNotices.txt", "one/a.py")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))

    collect_licences(packages, into=tmp_path / "licences")

    found = sorted(path.relative_to(tmp_path / "licences").as_posix() for path in (tmp_path / "licences").rglob("*.*"))
    assert found == ["one/one/ThirdPartyNotices.txt", "packages.json"]
    assert (tmp_path / "licences" / "one" / "licenses" / "LICENSE").is_file()
    assert '"licence": "MIT"' in (tmp_path / "licences" / "packages.json").read_text()
