#!/usr/bin/env python3
"""What does a container image stand on?

    packaging/container/rootfs.py --machine x86_64 python3 ca-certificates tini

makes the root file system of a minimal Debian with these packages and what they need, of the Debian release that this
machine runs and from where its own apt gets packages; it prints the file, an uncompressed tar archive. There is no apt
in it: an image is made anew, not upgraded. The archive is kept in $XDG_CACHE_HOME/shoal/container (default
~/.cache/shoal/container) and taken from there until --renew has it made with what Debian has today. The same packages
give the same bytes.

Exit codes: 1 where a package can't be fetched, 2 where this machine can't make one; says what is missing.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PYTHONS: Mapping[str, str] = {"bookworm": "3.11", "trixie": "3.13"}
"""Releases of Debian that images are made of, with the Python of each."""
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's names, by those of the kernel."""
EPOCH = 1_580_601_600
"""2 February 2020: no file is younger, so that nothing tells when the archive was made."""
USER_ID = 10_001
"""Of `shoal`, who runs every program of ours."""

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MERGED = "/usr/share/mmdebstrap/hooks/maybe-merged-usr"
"""So that /bin is a link to /usr/bin from the start, and no package is wanted that would make it one."""
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/lintian/*")
_LICENCES = "/usr/share/doc/*/copyright"
_HOOKS = (
    # Nothing of the machine that made it. /tmp must stay: mmdebstrap keeps the settings of its apt there, without which
    # its own cleaning up would reach the machine's.
    'rm -rf "$1"/etc/apt/sources.list* "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/var/log/* "$1"/etc/*- '
    '"$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old',
    f'echo "shoal:x:{USER_ID}:{USER_ID}:Shoal:/nonexistent:/usr/sbin/nologin" >> "$1"/etc/passwd',
    f'echo "shoal:x:{USER_ID}:" >> "$1"/etc/group',
    # Byte code with the digest of its source instead of a time: the same each time, and never written again.
    'test ! -x "$1"/usr/bin/python3 || PYTHONHASHSEED=0 chroot "$1" python3 -m compileall -q -f '
    "--invalidation-mode unchecked-hash /usr/lib/python3*",
)


class CantMake(Exception):
    """This machine can't make one; says what is missing."""


class FetchFailed(Exception):
    """Debian's packages couldn't be fetched or installed."""


def find_or_make(packages: Sequence[str], *, machine: str, is_renewed: bool = False) -> Path:
    """The archive, made first where it is missing.

    Raises:
        CantMake: no Debian that images are made of, or a program is missing.
        FetchFailed: mmdebstrap failed.
    """
    made = find_kept(packages, machine=machine)
    if made.exists() and not is_renewed:
        return made
    if shutil.which("mmdebstrap") is None:
        raise CantMake("mmdebstrap is missing; type: sudo apt-get install mmdebstrap")
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent, prefix="making-") as folder:
        tar = Path(folder, "root.tar")
        _bootstrap(packages, machine=machine, suite=find_suite(), tar=tar)
        for older in made.parent.glob(f"{made.name.rpartition('-')[0]}-*.tar"):
            older.unlink()
        tar.rename(made)
    return made


def find_kept(packages: Sequence[str], *, machine: str) -> Path:
    """Where the archive is kept, once it was made: by all that it is made of but for the versions of Debian's packages.

    Raises:
        CantMake: no Debian that images are made of.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "container"
    of_packages = _digest(*(package.encode() for package in sorted(packages)))
    return cache / f"root-{find_suite()}-{machine}-{of_packages}-{_digest(Path(__file__).read_bytes())}.tar"


def find_suite(os_release: Path = Path("/etc/os-release")) -> str:
    """The Debian release that this machine runs.

    Raises:
        CantMake: another system, or a release that images aren't made of.
    """
    facts = dict(line.split("=", 1) for line in os_release.read_text().splitlines() if "=" in line)
    suite = facts.get("VERSION_CODENAME", "").strip('"')
    if facts.get("ID", "").strip('"') != "debian" or suite not in PYTHONS:
        raise CantMake(
            f"images are made on Debian {' or '.join(PYTHONS)}; this is {facts.get('PRETTY_NAME', 'another')}"
        )
    return suite


def choose_sources(targets: Sequence[str], *, suite: str) -> str:
    """Of apt's targets, each `URI RELEASE COMPONENT`, those of a Debian release, as lines of a sources.list.

    Raises:
        CantMake: there are none.
    """
    names = {suite, f"{suite}-updates", f"{suite}-security"}
    lines = dict.fromkeys(line for line in targets if len(line.split()) == 3 and line.split()[1] in names)
    if not lines:
        raise CantMake(f"no source of {suite} among apt's (or `apt-get update` never ran)")
    return "".join(f"deb [signed-by={_KEYRING}] {line}\n" for line in lines)


def _bootstrap(packages: Sequence[str], *, machine: str, suite: str, tar: Path) -> None:
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    found = subprocess.run([*asked, "Origin: Debian"], capture_output=True, text=True, check=False)
    command = ["mmdebstrap", "--quiet", "--variant=essential", "--format=tar", f"--hook-dir={_MERGED}"]
    command += [f"--include={','.join(['usr-is-merged', *packages])}"]
    command += [f"--architectures={ARCHITECTURES[machine]}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    command += [f"--dpkgopt=path-include={_LICENCES}", *(f"--customize-hook={hook}" for hook in _HOOKS)]
    command += [suite, str(tar), "-"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "TMPDIR": str(tar.parent)}
    sources = choose_sources(found.stdout.splitlines(), suite=suite)
    done = subprocess.run(command, input=sources, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchFailed(f"mmdebstrap failed:\n{done.stderr.strip()[-4000:]}")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one archive where it is missing; prints where it is."""
    parser = argparse.ArgumentParser(
        description="Makes the root file system that a container image stands on.",
        epilog="example:\n  packaging/container/rootfs.py --machine x86_64 python3 ca-certificates tini",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("packages", nargs="+", metavar="PACKAGE")
    parser.add_argument("--machine", choices=list(ARCHITECTURES), default=platform.machine(), help="default: this one")
    parser.add_argument("--renew", action="store_true", help="make it anew, with what Debian has today")
    options = parser.parse_args(arguments)
    try:
        print(find_or_make(options.packages, machine=options.machine, is_renewed=options.renew))
    except CantMake as error:
        print(f"rootfs.py: {error}", file=sys.stderr)
        return 2
    except (FetchFailed, OSError) as error:
        print(f"rootfs.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
