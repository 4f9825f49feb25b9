"""What is on the virtual board's disk? Debian with our packages, the files of `files/`, and the kernel's modules.

Run as a program of its own, so that who isn't root can run it under fakeroot: owners and modes are those of the board.

    disk.py ROOT.tar MODULES AUTHORIZED_KEYS DISK.img
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SIZE = "6G"
"""Of the file system. The file has holes: it takes what is on it, half a gigabyte."""

MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty@tty1.service",
    "systemd-networkd-wait-online.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)
"""Units that only take time where a second of the board is ten of a real one, and that no test is about."""


def assemble(root_tar: Path, modules: Path, authorized_keys: Path, disk: Path) -> None:
    """Put everything together on a new ext4 file system in a file."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as temporary:
        root = Path(temporary, "root")
        root.mkdir(mode=0o755)
        subprocess.run(["tar", "--extract", "--file", root_tar, "--directory", root], check=True)
        _copy_files(root)
        shutil.copytree(modules / "lib/modules", root / "usr/lib/modules", symlinks=True)
        _let_in(root, authorized_keys)
        _choose_units(root)
        subprocess.run(["truncate", f"--size={SIZE}", disk], check=True)
        options = "lazy_itable_init=0,lazy_journal_init=0"
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-E", options, "-d", root, disk], check=True)


def _copy_files(root: Path) -> None:
    for source in sorted((HERE / "files").rglob("*")):
        target = root / source.relative_to(HERE / "files")
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.unlink(missing_ok=True)
            target.write_bytes(source.read_bytes())


def _let_in(root: Path, authorized_keys: Path) -> None:
    """Root logs in by key on the network, and without one on the console."""
    folder = root / "root/.ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "authorized_keys").write_bytes(authorized_keys.read_bytes())
    getty = root / "etc/systemd/system/serial-getty@ttyAMA0.service.d/autologin.conf"
    getty.parent.mkdir(parents=True)
    getty.write_text("[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear %I 115200 vt220\n")


def _choose_units(root: Path) -> None:
    system = root / "etc/systemd/system"
    for unit in MASKED:
        (system / unit).unlink(missing_ok=True)
        (system / unit).symlink_to("/dev/null")
    wanted = system / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "systemd-networkd.service").symlink_to("/lib/systemd/system/systemd-networkd.service")


if __name__ == "__main__":
    assemble(*(Path(argument) for argument in sys.argv[1:5]))
