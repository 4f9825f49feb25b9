"""How does a test run a container image with nothing but what Linux has?

As a container program does: root file system read-only, process tree of its own, the image's user, environment and
entry point, no capability, volumes mounted where they belong. Only the network is this machine's.
"""

import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
IMAGE_PROGRAM = ROOT / "packaging" / "container" / "image.py"
DEADLINE_S = 120.0

# Arguments: root, pairs of a volume's folder and place, `--`, then what is run.
_ENTER = """
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


class Image:
    """An image that was unpacked from its archive."""

    def __init__(self, archive: Path, folder: Path) -> None:
        """Unpack into `folder`, as root: owners are kept."""
        self.root = folder
        folder.mkdir()
        with tarfile.open(archive) as packed:
            (manifest,) = json.loads(_read(packed, "manifest.json"))
            self.config: dict[str, Any] = json.loads(_read(packed, manifest["Config"]))["config"]
            for layer in manifest["Layers"]:
                unpack = ["tar", "--extract", "--gzip", "--numeric-owner", "--directory", str(folder)]
                subprocess.run(unpack, input=_read(packed, layer), check=True, timeout=DEADLINE_S)
        self.user, self.group = self.config["User"].split(":")

    def make_volume(self, folder: Path) -> Path:
        """An empty folder that belongs to the image's user."""
        folder.mkdir(mode=0o700)
        os.chown(folder, int(self.user), int(self.group))
        return folder

    def command(self, arguments: Sequence[str], *, volumes: Mapping[str, Path], extra: Mapping[str, str]) -> list[str]:
        """What runs a container; `volumes` by place, `extra` is environment beside the image's."""
        mounts = [part for place, source in volumes.items() for part in (str(source), place)]
        environment = [*self.config["Env"], *(f"{name}={text}" for name, text in extra.items())]
        confined = ["setpriv", "--reuid", self.user, "--regid", self.group, "--clear-groups", "--no-new-privs"]
        confined += ["--bounding-set=-all", "--inh-caps=-all", "env", "--ignore-environment", *environment]
        program = [*self.config["Entrypoint"], *(arguments or self.config.get("Cmd", ()))]
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", _ENTER, "sh", str(self.root)]
        return [*enter, *mounts, "--", *confined, *program]

    def run(
        self, *arguments: str, volumes: Mapping[str, Path], extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A container to its end."""
        command = self.command(arguments, volumes=volumes, extra=extra or {})
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def start(
        self, *arguments: str, volumes: Mapping[str, Path], log: Path, extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """A container that goes on."""
        command = self.command(arguments, volumes=volumes, extra=extra or {})
        with log.open("ab") as file:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)


def stop(container: subprocess.Popen[str]) -> int:
    """Ask the first process of a container to end, as `docker stop` does; returns its exit code."""
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)
    code = container.wait(DEADLINE_S)
    if container.stdout:
        container.stdout.close()
    return code


def make_images(kinds: Sequence[str], out: Path, *, python: str, options: Sequence[str] = ()) -> dict[str, Path]:
    """Make images; by kind, the archive of each. Skips the test where this machine can't make any."""
    command = [python, str(IMAGE_PROGRAM), *kinds, "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    paths = [Path(line.split()[2]) for line in done.stdout.splitlines()]
    return dict(zip(kinds, paths, strict=True))


def skip_unless_possible() -> None:
    """Skip the test where containers can't be run like this."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts and another root file system")
    for program in ("unshare", "setpriv", "mmdebstrap", "umoci"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()
