"""Are package files the same bytes wherever they are built, and what Debian expects of one?"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.packages.package_files import DEADLINE_S, ROOT, build

pytestmark = pytest.mark.long

SOURCES = ("agent", "constraints.txt", "device_profiles", "fleet", "packaging", "wire")
EPOCH = "1764547200"


@pytest.fixture(autouse=True)
def _needs_tools() -> None:
    if shutil.which("dh") is None or importlib.util.find_spec("uv") is None:
        pytest.skip("debhelper or uv is not installed")


def copy_sources(folder: Path) -> Path:
    """Copy what packages are made of, as a fresh checkout has it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *SOURCES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # one that was removed is still listed until that is committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize(("package", "compression"), [("shoal-agent", "none"), ("shoal", "xz")], ids=["agent", "shoal"])
def test_two_builds_in_different_folders_are_the_same_bytes(
    package: str, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    digests = []
    for name, umask in (("one", 0o022), ("a-folder-with-a-longer-name", 0o077)):
        source, temporary = copy_sources(tmp_path / name / "source"), tmp_path / name / "temporary"
        temporary.mkdir()
        before = os.umask(umask)
        try:
            made = build(
                package,
                suite="bookworm",
                out=tmp_path / name / "out",
                temporary=temporary,
                source=source,
                compression=compression,
            )
        finally:
            os.umask(before)
        digests.append(hashlib.sha256(made.read_bytes()).hexdigest())
        shutil.rmtree(temporary)

    assert digests[0] == digests[1]


@pytest.mark.parametrize("package", ["shoal-agent", "shoal-agent-openvino", "shoal-fleet", "shoal"])
def test_debians_checker_finds_nothing_but_what_is_explained(package: str, tmp_path: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    made = build(package, suite="bookworm", out=tmp_path, temporary=tmp_path, compression="xz")

    command = ["lintian", "--allow-root", "--fail-on", "error,warning", "--profile", "debian", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert done.returncode == 0, done.stdout
