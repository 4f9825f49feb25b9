"""Which files does a program bring along, for which machine and which Python?

    packaging/tree.py agent --machine aarch64 --python 3.11 --out FOLDER

makes a folder that runs by itself on a board or server with that Python, as a virtual environment does:

    FOLDER/site-packages        the members' own wheels and, at the versions of constraints.txt, all that they need
    FOLDER/bin/python3          leads to the system's interpreter, /usr/bin/python3.11
    FOLDER/lib/python3.11/…     leads to site-packages, where that interpreter looks
    FOLDER/pyvenv.cfg           tells the interpreter that it is a virtual environment (PEP 405)
    FOLDER/site-packages/shoal_places.pth  names folders of the system where packages of an engine may add to it
    FOLDER/licences             licence texts by package, and packages.json with name, version and licence of each

so that `FOLDER/bin/python3 -I -m shoal_agent` works wherever FOLDER lies, and what the system has installed for
its own Python is never seen. It is made of wheels on any machine: nothing is compiled, nothing of it is run. The same
sources and constraints give the same files, times and modes included; the digest that is printed covers them all.
Needs uv, which chooses wheels for another machine than this one, and hatchling.

Exit codes: 1 where a wheel is missing or can't be fetched, 2 where a machine or Python isn't supported.
"""

import argparse
import csv
import email
import email.message
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("x86_64", "aarch64")
GLIBC = {"3.11": "2_36", "3.13": "2_40"}
"""Python to the newest C library that a wheel may ask for: that of Debian 12; of Debian 13, as far as uv knows."""
NO_WHEELS = {
    "armhf": "NumPy, ONNX Runtime, LiteRT and OpenVINO have no wheels for 32-bit ARM: install a 64-bit system, which "
    "every board from the Raspberry Pi 3 and Zero 2 W on can run",
}
NO_WHEELS |= dict.fromkeys(("armv6l", "armv7l", "armv8l", "armel"), NO_WHEELS["armhf"])
EPOCH_WITHOUT_GIT = 1_580_601_600
"""2 February 2020, as build tools have it: the time of every file where there is neither git nor SOURCE_DATE_EPOCH."""

_TEXT_NAMES = ("licen", "copying", "notice", "authors", "thirdpartynotice")
_TEXT_SUFFIXES = ("", ".txt", ".md", ".rst")

EXIT_FAILED = 1
EXIT_USAGE = 2


class Contents(NamedTuple):
    """What one kind of tree is made of."""

    members: tuple[str, ...] = ()
    """Folders of the workspace whose wheels are built and installed with all that they need."""
    extras: tuple[str, ...] = ()
    """Of the last member; those that a package has unless others are named."""
    alone: tuple[str, ...] = ()
    """Packages that are installed without what they need: it lies in the tree that this one is for."""
    left_out: tuple[str, ...] = ()
    """What the members need but this program never imports, with all that only it needs."""
    places: tuple[str, ...] = ()
    """Folders of the system where further packages may lie; they needn't be there."""


CONTENTS = {
    "agent": Contents(
        members=("wire", "agent"),
        extras=("images", "litert", "onnxruntime", "pkcs11", "text"),
        # With it tokenizers can download models, which a board never does.
        left_out=("huggingface-hub",),
        places=("/usr/lib/shoal-agent-openvino/site-packages", "/usr/lib/shoal-agent/system-packages"),
    ),
    "agent-openvino": Contents(alone=("openvino",)),
    "fleet": Contents(
        members=("wire", "fleet"), extras=("hsm", "oidc", "pkcs11"), places=("/usr/lib/shoal-fleet/system-packages",)
    ),
    # The operators' command alone, which imports nothing of the server.
    "operator": Contents(
        members=("wire", "fleet"),
        extras=("hsm",),
        left_out=(
            "alembic",
            "argon2-cffi",
            "fastapi",
            "paho-mqtt",
            "prometheus-client",
            "pydantic",
            "sqlalchemy",
            "uvicorn",
        ),
    ),
}
EXTRAS_WITHOUT_WHEELS = {"aarch64": ("pkcs11",)}
"""By machine: PyKCS11 has none there. A Debian package's is found in `places`."""


class TreeError(Exception):
    """A tree can't be made; the message says what is missing."""


class Unsupported(TreeError):
    """There are no wheels for that machine, or no such Python in a distribution that is supported."""


class Distribution(NamedTuple):
    """A Python package that lies in a tree."""

    name: str
    version: str
    licence: str


def make_tree(kind: str, *, machine: str, python: str, out: Path, extras: Sequence[str] | None = None) -> str:
    """Make the tree in `out`, which is emptied first; its digest.

    Args:
        extras: of the member; None takes those that a package has on that machine.

    Raises:
        Unsupported: no wheels for `machine`, or another Python.
        TreeError: a wheel is missing, or couldn't be fetched.
    """
    check_supported(machine=machine, python=python)
    contents = CONTENTS[kind]
    shutil.rmtree(out, ignore_errors=True)
    packages = out.resolve() / "site-packages"
    packages.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as wheels:
        requirements = [*contents.alone, *build_members(contents.members, into=Path(wheels))]
        if contents.members:
            requirements[-1] = _with_extras(requirements[-1], packaged_extras(kind, machine=machine, wanted=extras))
        _install(requirements, contents, machine=machine, python=python, packages=packages)
    _remove_leftovers(packages)
    if contents.places:
        (packages / "shoal_places.pth").write_text("".join(f"{place}\n" for place in contents.places))
    if contents.members:
        _make_environment(out, python=python)
    collect_licences(packages, into=out / "licences")
    normalise(out, epoch=source_date_epoch())
    return digest_of(out)


def check_supported(*, machine: str, python: str) -> None:
    """Refuse what no tree can be made for.

    Raises:
        Unsupported: says why, and what is supported.
    """
    if machine in NO_WHEELS:
        raise Unsupported(f"{machine}: {NO_WHEELS[machine]}")
    if machine not in MACHINES:
        raise Unsupported(f"machine must be one of {', '.join(MACHINES)}, not {machine}")
    if python not in GLIBC:
        raise Unsupported(f"Python must be one of {', '.join(GLIBC)}, not {python}")


def source_date_epoch() -> int:
    """The time that every file gets: SOURCE_DATE_EPOCH, else the last commit's, in seconds."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(found.stdout) if found.returncode == 0 and found.stdout.strip() else EPOCH_WITHOUT_GIT


def packaged_extras(kind: str, *, machine: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The extras that are installed: those that are wanted, else a package's as far as there are wheels."""
    if wanted is not None:
        return tuple(wanted)
    return tuple(one for one in CONTENTS[kind].extras if one not in EXTRAS_WITHOUT_WHEELS.get(machine, ()))


def build_members(members: Sequence[str], *, into: Path) -> list[str]:
    """Build the wheels of these folders of the workspace, from their sources alone; a requirement for each.

    Each requirement names the file: the public index has other packages of these names.

    Raises:
        TreeError: a member can't be built.
    """
    requirements = []
    for member in members:
        _run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into / member)], folder=ROOT / member
        )
        (wheel,) = (into / member).glob("*.whl")
        requirements.append(f"shoal-{member} @ {wheel.as_uri()}")
    return requirements


def _with_extras(requirement: str, extras: Sequence[str]) -> str:
    name, _, rest = requirement.partition(" ")
    return f"{name}[{','.join(extras)}] {rest}"


def _install(requirements: Sequence[str], contents: Contents, *, machine: str, python: str, packages: Path) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--no-python-downloads"]
    command += ["--python", sys.executable, "--target", str(packages), "--link-mode", "copy", "--no-compile-bytecode"]
    command += ["--python-version", python, "--python-platform", f"{machine}-manylinux_{GLIBC[python]}"]
    command += ["--only-binary", ":all:", "--constraint", str(ROOT / "constraints.txt")]
    command += ["--no-deps"] if contents.alone else []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as excludes:
        excludes.write("\n".join(contents.left_out))
        excludes.flush()
        _run([*command, "--excludes", excludes.name, *requirements], folder=ROOT)


def _run(command: Sequence[str], *, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TreeError(f"{' '.join(command[1:4])} failed in {folder}:\n{done.stderr.strip()}")


def _remove_leftovers(packages: Path) -> None:
    """Remove what the installer adds that isn't of a wheel, and programs that name the builder's interpreter."""
    for name in ("bin", ".lock"):
        path = packages / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for pattern in ("*.dist-info/direct_url.json", "*.dist-info/uv_cache.json", "*.dist-info/REQUESTED"):
        for path in packages.glob(pattern):
            path.unlink()
    for record in packages.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if _is_there(packages, recorded=line)))


def _is_there(packages: Path, *, recorded: str) -> bool:
    name = next(csv.reader([recorded]))[0]
    return (packages / name).exists() and not name.startswith("../")


def _make_environment(out: Path, *, python: str) -> None:
    """Let the system's interpreter find `site-packages` and nothing else (PEP 405)."""
    (out / "bin").mkdir()
    (out / "bin" / "python3").symlink_to(f"/usr/bin/python{python}")
    library = out / "lib" / f"python{python}"
    library.mkdir(parents=True)
    (library / "site-packages").symlink_to("../../site-packages")
    (out / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")


def collect_licences(packages: Path, *, into: Path) -> None:
    """Copy the licence texts of every package in the tree, and list what it holds in packages.json."""
    into.mkdir()
    found = []
    for info in sorted(packages.glob("*.dist-info")):
        metadata = email.message_from_bytes((info / "METADATA").read_bytes())
        distribution = Distribution(metadata["Name"], metadata["Version"], _licence(metadata))
        found.append(distribution)
        for path in _licence_texts(info):
            folder = info if path.is_relative_to(info) else packages
            target = into / distribution.name / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    found.sort(key=lambda one: one.name.lower())
    (into / "packages.json").write_text(json.dumps([one._asdict() for one in found], indent=1) + "\n")


def _licence(metadata: email.message.Message) -> str:
    """As the package states it: SPDX expression, else classifiers, else its first line in words."""
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    classifiers = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier", []) if one.startswith("License")]
    in_words = str(metadata["License"] or "").strip().partition("\n")[0]
    return " and ".join(classifiers) or in_words or "not stated: see its texts"


def _licence_texts(info: Path) -> Iterator[Path]:
    """The texts among all files that a package says it installed, wherever it put them."""
    for row in csv.reader((info / "RECORD").read_text().splitlines()):
        path = info.parent / row[0]
        if path.suffix in _TEXT_SUFFIXES and path.name.lower().startswith(_TEXT_NAMES):
            yield path


def normalise(tree: Path, *, epoch: int) -> None:
    """Give every file the same time, and modes that don't depend on who unpacked it."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def digest_of(tree: Path) -> str:
    """SHA-256 over the sorted paths, kinds and contents of a tree, in hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*"), key=lambda one: one.relative_to(tree).as_posix()):
        name = path.relative_to(tree).as_posix()
        if path.is_symlink():
            kind, content = "link", str(path.readlink()).encode()
        elif path.is_dir():
            kind, content = "folder", b""
        else:
            kind, content = "file", path.read_bytes()
        digest.update(f"{kind} {name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one tree; prints its digest."""
    parser = argparse.ArgumentParser(
        description="Makes the files of one program for one machine and Python.",
        epilog="example:\n  packaging/tree.py agent --machine aarch64 --python 3.11 --out /tmp/agent",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=sorted(CONTENTS))
    parser.add_argument("--machine", required=True, help=f"one of {', '.join(MACHINES)}")
    parser.add_argument("--python", required=True, help=f"one of {', '.join(GLIBC)}")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="emptied first")
    parser.add_argument("--extras", help="separated by commas; by default what a package has")
    options = parser.parse_args(arguments)
    extras = None if options.extras is None else options.extras.split(",")
    try:
        digest = make_tree(options.kind, machine=options.machine, python=options.python, out=options.out, extras=extras)
    except TreeError as error:
        print(f"tree.py: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, Unsupported) else EXIT_FAILED
    print(digest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
