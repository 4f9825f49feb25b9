#!/usr/bin/env python3
"""How is a container image made, without a registry and without a container program?

    packaging/container/image.py fleet broker agent --out dist/images

makes an archive of each that `podman load` and `docker load` take. Two layers: a minimal Debian (`rootfs.py`), and what
is ours on top, with the files of `packaging/tree.py` in /opt/shoal. umoci writes the image. Programs run as a user of
their own, write below /var/lib only, and tini is the first process. The same sources, constraints and Debian packages
give the same bytes; SOURCE_DATE_EPOCH, else the last commit's time, is that of the image.

Exit codes: 1 where something can't be fetched or built, 2 where this machine can't make images.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
USER_ID = 10_001
"""Of `shoal`, as `rootfs.py` writes it into /etc/passwd."""
TREE = "/opt/shoal"
NAME_PREFIX = "localhost/shoal-"
"""Of images that no registry holds."""
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names of the OCI specification, by those of the kernel."""

_PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON_PACKAGES = ("python3", "libstdc++6", "ca-certificates", "tini")


class Image(NamedTuple):
    """What one image holds and how it is started."""

    title: str
    packages: tuple[str, ...]
    """Of Debian."""
    entry: str
    """Program that is started, below tini."""
    command: tuple[str, ...] = ()
    """Its arguments, unless others are given."""
    tree: str = ""
    """Kind of tree, empty for none."""
    modules: Mapping[str, str] = {}
    """Programs in /usr/local/bin, by name: the module of the tree that each runs."""
    scripts: Mapping[str, Path] = {}
    """Further ones: the file of each."""
    folders: tuple[str, ...] = ()
    """Volumes, which `shoal` alone may read."""
    ports: tuple[int, ...] = ()
    environment: Mapping[str, str] = {}


IMAGES: Mapping[str, Image] = {
    "fleet": Image(
        title="Shoal fleet server",
        packages=_PYTHON_PACKAGES,
        tree="fleet",
        modules={"shoal": "shoal_fleet.command.cli", "shoal-fleet": "shoal_fleet.cli"},
        entry="shoal-fleet",
        command=("serve",),
        folders=("/var/lib/shoal-fleet", "/var/lib/shoal-fleet/broker", "/var/lib/shoal-keys"),
        ports=(8443, 8444),
        environment={
            "SHOAL_STATE": "/var/lib/shoal-fleet",
            "SHOAL_BIND": "0.0.0.0",  # noqa: S104 (which of its addresses others reach is the container's network)
            "SHOAL_BROKER": "unit",
            "SHOAL_KEK": "file:/var/lib/shoal-keys/kek.key",
        },
    ),
    "broker": Image(
        title="MQTT broker of a Shoal fleet",
        packages=("mosquitto", "tini"),
        scripts={"shoal-broker": HERE / "broker.sh"},
        entry="shoal-broker",
        folders=("/var/lib/shoal-fleet/broker",),
        ports=(8883,),
    ),
    "agent": Image(
        title="Shoal agent",
        packages=_PYTHON_PACKAGES,
        tree="agent",
        modules={"shoal-agent": "shoal_agent.cli"},
        entry="shoal-agent",
        command=("run",),
        folders=("/var/lib/shoal-agent",),
        environment={"SHOAL_STATE": "/var/lib/shoal-agent"},
    ),
}


class ImageError(Exception):
    """An image can't be made; the message says what is missing."""


class CantMake(ImageError):
    """This machine lacks a program."""


class Build(NamedTuple):
    """What all images of one run share."""

    machine: str
    version: str
    revision: str
    """Commit, empty where there is no git."""
    epoch: int


def make_image(kind: str, *, build: Build, out: Path, is_renewed: bool = False) -> Path:
    """Make one image; returns its archive in `out`.

    Raises:
        ImageError: something can't be fetched or built, or a program is missing.
    """
    if shutil.which("umoci") is None:
        raise CantMake("umoci is missing; type: sudo apt-get install umoci")
    image = IMAGES[kind]
    renew = ["--renew"] if is_renewed else []
    program = [sys.executable, str(HERE / "rootfs.py"), "--machine", build.machine, *renew, *image.packages]
    root = Path(_run(program).stdout.strip())
    name = f"{NAME_PREFIX}{kind}:{build.version}"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".making-") as scratch:
        layer, layout = Path(scratch, "layer.tar"), Path(scratch, "layout")
        tree = _make_tree(image, Path(scratch, "tree"), root=root, build=build) if image.tree else None
        write_layer(layer, image, tree=tree, epoch=build.epoch)
        write_layout(layout, image, layers=[root, layer], build=build)
        name_image(layout, name=name)
        archive = out / f"shoal-{kind}-{build.version}-{ARCHITECTURES[build.machine]}.tar"
        pack(layout, archive=archive, epoch=build.epoch)
    return archive


def _make_tree(image: Image, folder: Path, *, root: Path, build: Build) -> Path:
    """The files of the program, with byte code, as nobody may write it later."""
    python = _python_of(root)
    options = ["--machine", build.machine, "--python", python, "--out", str(folder)]
    _run([sys.executable, str(ROOT / "packaging" / "tree.py"), image.tree, *options])
    interpreter = shutil.which(f"python{python}", path=f"/usr/bin:{os.environ.get('PATH', '')}")
    if interpreter is None:
        raise CantMake(f"python{python}, which compiles for the image, is missing; it is Debian's package python3")
    compiling = ["-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    _run([interpreter, *compiling, "-s", str(folder), "-p", TREE, str(folder / "site-packages")], hash_seed="0")
    return folder


def _python_of(root: Path) -> str:
    """Version of the Python in a root file system: `3.11`."""
    with tarfile.open(root) as archive:
        link = archive.getmember("./usr/bin/python3").linkname
    return link.rpartition("/")[2].removeprefix("python")


def write_layer(layer: Path, image: Image, *, tree: Path | None, epoch: int) -> None:
    """Write what is ours as a tar archive: programs, the tree, and folders for volumes."""
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, module in sorted(image.modules.items()):
            text = f'#!/bin/sh\nexec {TREE}/bin/python3 -I -B -m {module} "$@"\n'
            _add_file(archive, f"usr/local/bin/{name}", text.encode(), mode=0o755, epoch=epoch)
        for name, source in sorted(image.scripts.items()):
            _add_file(archive, f"usr/local/bin/{name}", source.read_bytes(), mode=0o755, epoch=epoch)
        if tree is not None:
            for path, target in [(tree, TREE), *((path, f"{TREE}/{path.relative_to(tree)}") for path in _walk(tree))]:
                _add_path(archive, path, target.lstrip("/"), epoch=epoch)
        for folder in image.folders:
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o700, epoch
            entry.uid = entry.gid = USER_ID
            archive.addfile(entry)


def _walk(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()))


def _add_path(archive: tarfile.TarFile, path: Path, name: str, *, epoch: int) -> None:
    """As root's, which everybody may read."""
    entry = tarfile.TarInfo(name)
    entry.mtime = epoch
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
    elif path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
    else:
        _add_file(archive, name, path.read_bytes(), mode=0o644, epoch=epoch)


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int, epoch: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.mode, entry.size = epoch, mode, len(content)
    archive.addfile(entry, io.BytesIO(content))


def write_layout(layout: Path, image: Image, *, layers: Sequence[Path], build: Build) -> None:
    """Write an OCI image layout with one image, tagged `image`."""
    created = datetime.fromtimestamp(build.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reference = ["--image", f"{layout}:image"]
    _run(["umoci", "init", "--layout", str(layout)])
    _run(["umoci", "new", *reference])
    for layer in layers:
        history = ["--history.created", created, "--history.created_by", "packaging/container/image.py"]
        _run(["umoci", "raw", "add-layer", *reference, *history, str(layer)])
    labels = {
        "org.opencontainers.image.title": image.title,
        "org.opencontainers.image.version": build.version,
        "org.opencontainers.image.revision": build.revision,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    options = [f"--config.label={key}={value}" for key, value in labels.items() if value]
    environment = {"PATH": _PATH, **image.environment}
    options += [f"--config.env={key}={value}" for key, value in sorted(environment.items())]
    options += [f"--config.volume={folder}" for folder in image.folders]
    options += [f"--config.exposedports={port}/tcp" for port in image.ports]
    options += [f"--config.entrypoint={part}" for part in ("/usr/bin/tini", "--", f"/usr/local/bin/{image.entry}")]
    options += [f"--config.cmd={part}" for part in image.command]
    options += [f"--config.user={USER_ID}:{USER_ID}", "--config.workingdir=/", "--config.stopsignal=SIGTERM"]
    options += ["--os=linux", f"--architecture={ARCHITECTURES[build.machine]}", f"--created={created}", "--no-history"]
    _run(["umoci", "config", *reference, *options])
    _run(["umoci", "gc", "--layout", str(layout)])


def name_image(layout: Path, *, name: str) -> None:
    """Give the image its name: podman and containerd read it in the index, Docker in a manifest.json beside it."""
    index = json.loads((layout / "index.json").read_bytes())
    (descriptor,) = index["manifests"]
    descriptor["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    (layout / "index.json").write_text(json.dumps(index, sort_keys=True))
    manifest = json.loads(_blob(layout, descriptor).read_bytes())
    for_docker = {
        "Config": _blob(layout, manifest["config"]).relative_to(layout).as_posix(),
        "RepoTags": [name],
        "Layers": [_blob(layout, layer).relative_to(layout).as_posix() for layer in manifest["layers"]],
    }
    (layout / "manifest.json").write_text(json.dumps([for_docker], sort_keys=True))


def _blob(layout: Path, descriptor: Mapping[str, str]) -> Path:
    algorithm, _, digest = descriptor["digest"].partition(":")
    return layout / "blobs" / algorithm / digest


def pack(layout: Path, *, archive: Path, epoch: int) -> None:
    """Pack a layout into one file, which is there as a whole or not at all."""
    being_written = layout.with_suffix(".tar")
    with tarfile.open(being_written, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in _walk(layout):
            _add_path(tar, path, path.relative_to(layout).as_posix(), epoch=epoch)
    being_written.rename(archive)


def _run(command: Sequence[str], *, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        kind = CantMake if done.returncode == 2 else ImageError
        raise kind(f"{' '.join(command[:4])} … failed:\n{done.stderr.strip()[-4000:]}")
    return done


def read_build(*, machine: str) -> Build:
    """Version, commit and time of the sources."""
    git = ["git", "-C", str(ROOT), "log", "-1", "--format=%H %ct"]
    found = subprocess.run(git, capture_output=True, text=True, check=False).stdout.split()
    revision, committed = found if len(found) == 2 else ("", "1580601600")
    version = tomllib.loads((ROOT / "fleet" / "pyproject.toml").read_text())["project"]["version"]
    return Build(machine, version, revision, int(os.environ.get("SOURCE_DATE_EPOCH", committed)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make images; prints a line for each: digest of the archive, size in bytes, path."""
    parser = argparse.ArgumentParser(
        description="Makes container images.",
        epilog="example:\n  packaging/container/image.py fleet broker --out dist/images\n"
        "  podman load --input dist/images/shoal-fleet-0.1.0-amd64.tar",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="+", choices=list(IMAGES), metavar="KIND", help=", ".join(IMAGES))
    parser.add_argument("--machine", choices=list(ARCHITECTURES), default=platform.machine(), help="default: this one")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "images", metavar="FOLDER", help="%(default)s")
    parser.add_argument("--renew", action="store_true", help="with what Debian has today")
    options = parser.parse_args(arguments)
    try:
        build = read_build(machine=options.machine)
        for kind in options.kinds:
            archive = make_image(kind, build=build, out=options.out, is_renewed=options.renew)
            with archive.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            print(f"{digest} {archive.stat().st_size} {archive}", flush=True)
    except CantMake as error:
        print(f"image.py: {error}", file=sys.stderr)
        return 2
    except (ImageError, OSError) as error:
        print(f"image.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
