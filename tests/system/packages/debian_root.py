"""How is a package tried on a bare Debian, without touching this machine or the network?

A small system is made once by mmdebstrap from the sources that this machine's own apt has, and kept as an archive in
the user's cache folder. It is unpacked once a session; each test writes into a layer of its own above it. Commands run
in namespaces without a network.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGES = ("systemd", "mosquitto", "python3", "libstdc++6", "zlib1g")
"""What our packages depend on."""
PROGRAMS = ("mmdebstrap", "unshare", "dh")
DEADLINE_S = 600.0

_INSIDE = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount -t sysfs -o ro sysfs "$2/root/sys"
mount -t tmpfs tmpfs "$2/root/dev/shm"
mount -t tmpfs tmpfs "$2/root/run"
mount -t tmpfs tmpfs "$2/root/tmp"
folder=$2
shift 2
exec chroot "$folder/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
"""


class DebianRoot(NamedTuple):
    """A system: folders with what is below, the lowest last, and one that takes what is written."""

    below: tuple[Path, ...]
    layer: Path

    def run(self, *command: str, is_allowed_to_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as root and without a network."""
        lower = ":".join(str(path) for path in self.below)
        namespaces = ("unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
        done = subprocess.run(
            [*namespaces, "sh", "-e", "-c", _INSIDE, "sh", lower, str(self.layer), *command],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert is_allowed_to_fail or done.returncode == 0, f"{command} ended with {done.returncode}:\n{done}"
        return done

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self.run("test", "-e", path, is_allowed_to_fail=True).returncode == 0

    def write(self, path: str, text: str) -> None:
        """Write a file; it keeps its owner where it was there."""
        self.run("sh", "-c", 'printf "%s" "$2" > "$1"', "sh", path, text)

    def install(self, *packages: Path, is_allowed_to_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Install package files with dpkg."""
        folder = self.layer / "changes" / "root" / "packages"
        folder.mkdir(parents=True, exist_ok=True)
        for package in packages:
            shutil.copyfile(package, folder / package.name)
        names = [f"/root/packages/{package.name}" for package in packages]
        done = self.run("dpkg", "--install", *names, is_allowed_to_fail=is_allowed_to_fail)
        shutil.rmtree(folder)
        return done

    def on_top(self, folder: Path) -> "DebianRoot":
        """Another system that begins as this one is now."""
        return make_root((self.layer / "changes", *self.below), folder=folder)


def make_root(below: Sequence[Path], *, folder: Path) -> DebianRoot:
    """A system above these folders, which takes what is written into `folder`."""
    for part in ("changes", "work", "root"):
        (folder / part).mkdir(parents=True)
    return DebianRoot(tuple(below), folder)


def require_programs() -> None:
    """Skip the test where systems can't be made."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("only root may make systems in folders")
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("this machine gives no namespaces")


def unpack_system(suite: str, *, folder: Path) -> Path:
    """A bare Debian in `folder`, made first where this machine has never made it."""
    archive = _archive(suite)
    folder.mkdir()
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True, timeout=DEADLINE_S)
    return folder


def _archive(suite: str) -> Path:
    sources = _sources(suite)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "packages"
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(repr((suite, PACKAGES, sources)).encode()).hexdigest()[:16]
    archive = cache / f"{suite}-{digest}.tar"
    with (cache / f"{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests of two processes may want it at once
        if not archive.exists():
            _make(suite, sources=sources, archive=archive)
    return archive


def _sources(suite: str) -> str:
    """This machine's own apt sources for Debian, with `suite` in place of its release."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if path.exists() and "debian" in path.read_text():
            return re.sub(r"\b(bookworm|trixie)\b", suite, path.read_text())
    pytest.skip("this machine's apt has no sources for Debian 12 or 13")


def _make(suite: str, *, sources: str, archive: Path) -> None:
    listed = archive.with_suffix(".sources" if sources.lstrip().startswith("Types:") else ".list")
    listed.write_text(sources)
    made = archive.with_suffix(".part.tar")
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    command += ['--aptopt=Acquire::Languages "none"', suite, str(made), str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode:
        pytest.skip(f"no system of {suite} can be made here: {done.stderr.strip().splitlines()[-1:]}")
    made.rename(archive)
