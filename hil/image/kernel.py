"""What does the virtual board start with? Debian's kernel, our module for it, and a first program that finds the disk.

The kernel is unpacked, never installed: Debian's way to make an initial file system takes a quarter of an hour where
programs of the board are emulated, this one seconds.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from hil.image.apt import BOARD_ARCHITECTURE, Apt, NoPackages

HERE = Path(__file__).parent
MODULE = HERE.parent / "module"
CROSS_COMPILE = "aarch64-linux-gnu-"
_FIRST_NEEDED = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
"""What the disk is on. ext4 finds crc32c_generic by name only, so no list of dependencies has it."""


class Kernel(NamedTuple):
    """What `download` fetched. Nothing is unpacked yet."""

    version: str
    image: Path
    headers: tuple[Path, ...]
    """Packages in which the module is built, programs of this machine among them."""
    busybox: Path


def download(apt: Apt, folder: Path) -> Kernel:
    """Fetch the archive's newest kernel and what our module is built with.

    Raises:
        NoPackages: the archive has none.
    """
    (image,) = [name for name in apt.dependencies(f"linux-image-{BOARD_ARCHITECTURE}") if name.startswith("linux-")]
    version = image.removeprefix("linux-image-")
    own = f"linux-headers-{version}"
    needed = [name for name in apt.dependencies(own) if name.startswith("linux-")]
    headers = [f"{name}:{apt.host_architecture}" if "kbuild" in name else name for name in (own, *needed)]
    folder.mkdir(exist_ok=True)
    fetched = apt.download([image, "busybox-static", *headers], folder)
    return Kernel(version, fetched[0], tuple(fetched[2:]), fetched[1])


def unpack_modules(kernel: Kernel, folder: Path) -> Path:
    """Unpack kernel and modules, ours among them, into `folder`; returns the kernel itself.

    `folder`/lib/modules then is what the board needs.
    """
    subprocess.run(["dpkg-deb", "--extract", kernel.image, folder], check=True)
    extra = folder / "lib/modules" / kernel.version / "extra"
    extra.mkdir()
    shutil.copy(_build_module(kernel, folder.with_name("headers")), extra)
    subprocess.run(["/sbin/depmod", "--basedir", folder, kernel.version], check=True)
    return folder / "boot" / f"vmlinuz-{kernel.version}"


def _build_module(kernel: Kernel, folder: Path) -> Path:
    """Cross-build `hil/module` in a copy of its folder."""
    for package in kernel.headers:
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    headers = folder / f"usr/src/linux-headers-{kernel.version}"
    # It names the folder in which the package would be installed.
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{folder}/usr/src/"))
    copy = folder / "module"
    shutil.copytree(MODULE, copy)
    settings = [f"KERNEL={headers}", "ARCH=arm64", f"CROSS_COMPILE={CROSS_COMPILE}", f"CC={_find_compiler()}"]
    done = subprocess.run(["make", "-C", copy, *settings], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPackages(f"the module can't be built:\n{done.stdout}{done.stderr}")
    return copy / "edge_fake.ko"


def _find_compiler() -> str:
    """The cross compiler: any version of it builds a module that loads."""
    names = {
        path.name
        for folder in os.get_exec_path()
        for path in Path(folder).glob(f"{CROSS_COMPILE}gcc*")
        if path.name.removeprefix(f"{CROSS_COMPILE}gcc").strip("-").isdecimal() or path.name == f"{CROSS_COMPILE}gcc"
    }
    if not names:
        raise NoPackages(f"no cross compiler {CROSS_COMPILE}gcc: install gcc-12-aarch64-linux-gnu or a newer one")
    return min(names)


def make_initrd(kernel: Kernel, modules: Path, out: Path) -> None:
    """Write the file system in memory that the kernel starts with: busybox, `init`, and the modules of the disk.

    `modules`: where `unpack_modules` unpacked to. Scratch files lie beside it.
    """
    root = modules.with_name("initrd")
    for name in ("bin", "dev", "proc", "disk", "modules"):
        (root / name).mkdir(parents=True)
    unpacked = modules.with_name("busybox")
    subprocess.run(["dpkg-deb", "--extract", kernel.busybox, unpacked], check=True)
    shutil.copy(next(path for path in unpacked.rglob("busybox") if os.access(path, os.X_OK)), root / "bin/busybox")
    shutil.copy(HERE / "init", root / "init")
    tree = modules / "lib/modules" / kernel.version
    order = load_order((tree / "modules.dep").read_text(), _FIRST_NEEDED)
    for path in order:
        shutil.copy(tree / path, root / "modules")
    (root / "modules/order").write_text("".join(f"{Path(path).name}\n" for path in order))
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    packing = ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"]
    packed = subprocess.run(
        packing, cwd=root, input="\n".join([".", *names]).encode(), stdout=subprocess.PIPE, check=True
    )
    out.write_bytes(packed.stdout)


def load_order(dependencies: str, names: tuple[str, ...]) -> list[str]:
    """Files of modules in an order in which they load, each after what it needs.

    Args:
        dependencies: text of modules.dep (modules.dep(5)): `file: file file …`, what is needed first last.
        names: of modules; one that is built into the kernel isn't listed and left out.
    """
    needs = {}
    for line in dependencies.splitlines():
        file, _, rest = line.partition(":")
        needs[Path(file).name.partition(".")[0].replace("-", "_")] = [file, *rest.split()]
    found = [file for name in names for file in reversed(needs.get(name, []))]
    return list(dict.fromkeys(found))
