"""How is the virtual board's image made, and where is it kept?

    python -m hil.image.build            makes it where it is missing, and prints its folder
    python -m hil.image.build --renew    makes it anew, with what Debian has today

It lies in $XDG_CACHE_HOME/shoal/hil (default ~/.cache/shoal/hil), by a digest of all that it is made of but for the
versions of Debian's packages. Making it takes about ten minutes, of which Debian's own programs take seven; they are
kept apart, so that a change of our files costs half a minute. Exit code 2: this machine can't make it; says why.
Exit code 1: a program failed, and has said why.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hil.image import debian, kernel
from hil.image.apt import Apt, NoPackages, debian_sources

HERE = Path(__file__).parent
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-img": "qemu-utils",
    "cpio": "cpio",
    "ssh-keygen": "openssh-client",
    "make": "make",
}
"""Program and the package that has it."""
_INTERPRETER = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
_EXIT_CANT = 2
_EXIT_FAILED = 1


class Image(NamedTuple):
    """What a virtual board starts from. Never written to: each board has an overlay of its own."""

    folder: Path

    @property
    def disk(self) -> Path:
        """Raw ext4 file system."""
        return self.folder / "disk.img"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def key(self) -> Path:
        """Private SSH key with which root logs in."""
        return self.folder / "id_ed25519"


def find_or_make(*, tell: Callable[[str], None], is_renewed: bool = False) -> Image:
    """The image, made first where it is missing.

    Raises:
        NoPackages: this machine can't make it; says what is missing.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "hil"
    image = Image(cache / f"image-{_digest(HERE, kernel.MODULE)}")
    if image.folder.is_dir() and not is_renewed:
        return image
    _check_programs()
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache), tempfile.TemporaryDirectory(dir=cache, prefix="making-") as temporary:
        if image.folder.is_dir() and not is_renewed:
            return image
        _make(Path(temporary), cache, is_renewed=is_renewed, tell=tell)
        _remove_old(cache, "image-")
        Path(temporary, "image").rename(image.folder)
    return image


def why_not() -> str:
    """Why there can be no virtual board here, in words; empty where there can be one."""
    try:
        _check_programs()
        debian_sources()
    except (NoPackages, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""


def _make(folder: Path, cache: Path, *, is_renewed: bool, tell: Callable[[str], None]) -> None:
    """Make everything in `folder`/image."""
    sources = debian_sources()
    out = folder / "image"
    out.mkdir()
    with _step("fetching Debian's kernel and its headers", tell):
        fetched = kernel.download(Apt(folder / "apt", sources=sources), folder / "packages")
    with _step(f"unpacking kernel {fetched.version}, building edge_fake for it", tell):
        shutil.copy(kernel.unpack_modules(fetched, folder / "modules"), out / "vmlinuz")
        kernel.make_initrd(fetched, folder / "modules", out / "initrd")
    root = cache / f"debian-{_digest(HERE / 'debian.py')}.tar"
    if is_renewed or not root.exists():
        with _step("installing Debian for arm64 with emulated programs; takes seven minutes or more", tell):
            debian.bootstrap(sources, folder / "debian.tar")
            _remove_old(cache, "debian-")
            (folder / "debian.tar").rename(root)
    with _step("making the disk", tell):
        key = str(out / "id_ed25519")
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "virtual board", "-f", key]
        subprocess.run(keygen, check=True)
        as_root = [] if os.geteuid() == 0 else ["fakeroot"]
        parts = [root, folder / "modules", out / "id_ed25519.pub", out / "disk.img"]
        program = [*as_root, sys.executable, "-m", "hil.image.disk", *map(str, parts)]
        subprocess.run(program, cwd=HERE.parents[1], check=True)


@contextlib.contextmanager
def _step(what: str, tell: Callable[[str], None]) -> Iterator[None]:
    tell(f"{what} …")
    began = time.monotonic()
    yield
    tell(f"  {time.monotonic() - began:.0f} s")


@contextlib.contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_programs() -> None:
    packages = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    packages += [] if Path("/sbin/depmod").exists() else ["kmod"]
    packages += [] if os.geteuid() == 0 or shutil.which("fakeroot") else ["fakeroot"]
    if packages:
        raise NoPackages(f"programs are missing; type: sudo apt-get install {' '.join(packages)}")
    if not _INTERPRETER.exists():
        raise NoPackages(
            "this kernel doesn't run programs for arm64 (no qemu-aarch64 in binfmt_misc); type: "
            "sudo apt-get install qemu-user-static binfmt-support && sudo update-binfmts --enable qemu-aarch64"
        )


def _remove_old(cache: Path, prefix: str) -> None:
    for path in cache.glob(f"{prefix}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _digest(*sources: Path) -> str:
    """Of all files below some folders, names and modes included."""
    digest = hashlib.sha256()
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.name} {path.stat().st_mode:o}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> int:
    """Make the image where it is missing."""
    parser = argparse.ArgumentParser(description="Make the virtual board's image.", epilog=__doc__)
    parser.add_argument("--renew", action="store_true", help="make it anew, with what Debian has today")
    options = parser.parse_args()
    try:
        image = find_or_make(tell=lambda line: print(line, file=sys.stderr, flush=True), is_renewed=options.renew)
    except NoPackages as error:
        print(f"hil: {error}", file=sys.stderr)
        return _EXIT_CANT
    except subprocess.CalledProcessError as error:
        print(f"hil: {error.cmd[0]} ended with exit code {error.returncode}; above is what it said", file=sys.stderr)
        return _EXIT_FAILED
    print(image.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
