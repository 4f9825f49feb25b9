"""How do the workspace's members become Debian packages?

    packaging/packages.py                                                   all of them, into dist/   (make packages)
    packaging/packages.py --package shoal-agent --distribution bookworm --machine aarch64

Each package is a tree of wheels (packaging/tree.py), the command that starts it, configuration and units. debhelper
makes the packages of that and writes what maintainer scripts do for units, users and configuration. Packages for
another machine are made here too: nothing of theirs is run. The same sources give the same bytes, in whatever folder.

Needs debhelper, and uv and hatchling for the trees. Exit codes: 1 where something failed, 2 where it was called
wrongly or for a machine without wheels.
"""

import argparse
import email.utils
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tree import ROOT, TreeError, Unsupported, check_supported, make_tree, source_date_epoch

PACKAGING = ROOT / "packaging"
EXIT_FAILED = 1
EXIT_USAGE = 2


class Distribution(NamedTuple):
    """A release of Debian."""

    suffix: str
    """Of the version, so that packages of a later release are newer."""
    python: str


DISTRIBUTIONS = {"bookworm": Distribution("deb12", "3.11"), "trixie": Distribution("deb13", "3.13")}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Machine to what Debian calls it."""
COMPRESSIONS = {"xz": ("-Zxz", "-z2"), "none": ("-Znone",)}
"""Level 2 takes a third of the default level's time for packages that are an eighth larger. zstd would be faster still,
but Debian's checker takes no package with it."""

STOPPED = ("--no-restart-after-upgrade",)
"""While files are exchanged: a tree isn't taken from under a program, which would start children of another version."""
LEFT = ("--no-stop-on-upgrade",)
"""As it is during an upgrade: it has no files in a tree."""
ON_DEMAND = ("--no-enable", "--no-start")
"""Something else starts it."""


class Package(NamedTuple):
    """What makes one package, beside the files of that name in packaging/debian."""

    tree: str
    """Kind of its tree, which lies in /usr/lib under the package's name."""
    units: Mapping[str, tuple[str, ...]] = {}
    """Unit of packaging/systemd to what happens to it when the package is installed, upgraded and removed."""
    next_step: str = ""
    """Said after the first installation."""


PACKAGES = {
    "shoal-agent": Package(
        "agent",
        units={
            "shoal-agent.service": STOPPED,
            "shoal-agent-enrolled.path": LEFT,
            "shoal-agent-enrol.service": LEFT,
            "shoal-agent-guard.path": LEFT,
            "shoal-agent-guard.service": ON_DEMAND,
        },
        next_step="shoal-agent: make this board part of a fleet: sudo shoal-agent enrol TOKEN\n"
        "(an operator gets the token with: shoal device token --name yard)",
    ),
    "shoal-agent-openvino": Package(
        "agent-openvino",
        next_step="shoal-agent-openvino: used from the next start on: sudo systemctl restart shoal-agent",
    ),
    "shoal-fleet": Package(
        "fleet",
        units={
            "shoal-fleet.service": STOPPED,
            "shoal-broker.service": LEFT,
            "shoal-broker-reload.path": LEFT,
            "shoal-broker-reload.service": ON_DEMAND,
        },
        next_step="shoal-fleet: say in /etc/shoal/fleet.toml under which name boards reach this machine, then make\n"
        "the fleet: sudo shoal-fleet init && sudo systemctl start shoal-fleet",
    ),
    "shoal": Package("operator"),
}


class PackagingError(Exception):
    """Packages can't be made; the message says why."""


def make_packages(
    names: Sequence[str], *, distribution: str, machine: str, out: Path, compression: str = "xz"
) -> list[Path]:
    """Make these packages for one distribution and machine; the files, which lie in `out`.

    Raises:
        Unsupported: no wheels for that machine.
        TreeError: a tree can't be made.
        PackagingError: debhelper is missing or failed.
    """
    check_supported(machine=machine, python=DISTRIBUTIONS[distribution].python)
    if shutil.which("dh") is None:
        raise PackagingError("debhelper is missing: sudo apt-get install debhelper")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shoal-packages-") as folder:
        source = Path(folder, "shoal")
        version = lay_out_source(source, names, distribution=distribution, machine=machine)
        _run_debhelper(source, distribution=distribution, machine=machine, compression=compression)
        made = [Path(folder, f"{name}_{version}_{ARCHITECTURES[machine]}.deb") for name in names]
        return [Path(shutil.move(path, out / path.name)) for path in made]


def lay_out_source(source: Path, names: Sequence[str], *, distribution: str, machine: str) -> str:
    """Put everything that debhelper takes up into a folder; the packages' version."""
    debian, python = source / "debian", DISTRIBUTIONS[distribution].python
    shutil.copytree(PACKAGING / "debian", debian)
    for folder in ("agent", "fleet"):
        shutil.copytree(PACKAGING / folder, source / folder)
    profiles = source / "device_profiles"
    profiles.mkdir()
    for profile in (ROOT / "device_profiles").glob("*.toml"):
        shutil.copyfile(profile, profiles / profile.name)
    version = f"{_member_version('agent')}+{DISTRIBUTIONS[distribution].suffix}"
    _write_changelog(debian / "changelog", version=version, distribution=distribution)
    control = (debian / "control").read_text().split("\n\n")
    (debian / "control").write_text("\n\n".join([control[0], *(one for one in control[1:] if _name_of(one) in names)]))
    for name in names:
        tree = source / "trees" / name
        make_tree(PACKAGES[name].tree, machine=machine, python=python, out=tree)
        _lay_out_package(source, name, machine=machine)
        _fill_in(
            sorted(debian.glob(f"{name}.*")) + [source / "fleet" / "shoal"] * (name in ("shoal", "shoal-fleet")),
            {
                "python": f"/usr/bin/python{python}",
                "tree": f"/usr/lib/{name}",
                "next": PACKAGES[name].next_step,
                "version": version,
                "revisions": " ".join(_database_revisions()),
                "state_format": _state_format(),
            },
        )
    epoch = source_date_epoch()
    for path in source.rglob("*"):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    return version


def _member_version(member: str) -> str:
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _name_of(stanza: str) -> str:
    return stanza.partition("\n")[0].removeprefix("Package: ")


def _write_changelog(path: Path, *, version: str, distribution: str) -> None:
    date = email.utils.formatdate(source_date_epoch(), usegmt=False)
    path.write_text(
        f"shoal ({version}) {distribution}; urgency=medium\n\n"
        "  * What has changed is told in CHANGELOG.md of the sources.\n\n"
        f" -- Shoal developers <packages@shoal.invalid>  {date}\n"
    )


def _lay_out_package(source: Path, name: str, *, machine: str) -> None:
    """Scripts, units and statement of licences of one package."""
    debian = source / "debian"
    for part in ("postinst", "prerm"):
        shutil.copyfile(debian / f"tree.{part}", debian / f"{name}.{part}")
    with (debian / "units").open("a") as units:
        for unit, options in PACKAGES[name].units.items():
            shutil.copyfile(PACKAGING / "systemd" / unit, debian / f"{name}.{unit}")
            units.write(f"-p{name} --name={Path(unit).stem} {' '.join(options)} {unit}\n")
    found = json.loads((source / "trees" / name / "licences" / "packages.json").read_text())
    (debian / f"{name}.copyright").write_text(_copyright(name, found))
    if machine == "aarch64" and name in ("shoal-agent", "shoal-fleet"):
        # PyKCS11 has no wheel there: the distribution's own is taken where somebody installs it.
        links = debian / f"{name}.links"
        links.write_text(f"usr/lib/python3/dist-packages/PyKCS11 usr/lib/{name}/system-packages/PyKCS11\n")


def _copyright(name: str, found: Sequence[Mapping[str, str]]) -> str:
    lines = [
        f"{name} is part of Shoal, which is under the Apache License, version 2.0:",
        "/usr/share/common-licenses/Apache-2.0",
        "",
        f"Copyright © {time.gmtime(source_date_epoch()).tm_year} the authors of Shoal",
        "",
        "With it come these Python packages as their authors published them. Their licence texts are in",
        f"/usr/share/doc/{name}/licences.",
        "",
        *(f"  {one['name']} {one['version']}: {one['licence']}" for one in found),
    ]
    return "\n".join(lines) + "\n"


def _database_revisions() -> list[str]:
    """All that this version's database may be at."""
    versions = sorted((ROOT / "fleet/src/shoal_fleet/migrations/versions").glob("[0-9]*.py"))
    return [re.findall(r'^revision = "(\w+)"', path.read_text(), re.MULTILINE)[0] for path in versions]


def _state_format() -> str:
    """The newest format of a board's state that this version reads."""
    (found,) = re.findall(
        r"^STATE_FORMAT = (\d+)$", (ROOT / "agent/src/shoal_agent/own_trees.py").read_text(), re.MULTILINE
    )
    return str(found)


def _fill_in(paths: Sequence[Path], values: Mapping[str, str]) -> None:
    for path in paths:
        text = path.read_text()
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        path.write_text(text)


def _run_debhelper(source: Path, *, distribution: str, machine: str, compression: str) -> None:
    python = DISTRIBUTIONS[distribution].python
    environment = dict(
        os.environ,
        SOURCE_DATE_EPOCH=str(source_date_epoch()),
        SHOAL_DEPENDS=f"python{python}, libc6, libgcc-s1, libstdc++6, zlib1g",
        SHOAL_SUGGESTS="python3-pykcs11" if machine == "aarch64" else "",
        SHOAL_COMPRESSION=" ".join(COMPRESSIONS[compression]),
        DEB_BUILD_OPTIONS="nocheck",
    )
    command = ["dpkg-architecture", "--host-arch", ARCHITECTURES[machine], "--force", "--command"]
    done = subprocess.run(
        [*command, "debian/rules binary"], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PackagingError(f"debhelper failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what was asked for; prints the path of each package."""
    parser = argparse.ArgumentParser(
        description="Makes Debian packages.",
        epilog="example:\n  packaging/packages.py --package shoal-agent --distribution bookworm --machine aarch64",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--package", action="append", choices=list(PACKAGES), help="may be repeated; default: all")
    parser.add_argument("--distribution", action="append", choices=list(DISTRIBUTIONS), help="likewise")
    parser.add_argument("--machine", action="append", help=f"likewise, of {', '.join(ARCHITECTURES)}")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist/")
    parser.add_argument("--compression", choices=list(COMPRESSIONS), default="xz", help="none: for tests")
    options = parser.parse_args(arguments)
    try:
        for distribution in options.distribution or DISTRIBUTIONS:
            for machine in options.machine or ARCHITECTURES:
                made = make_packages(
                    options.package or list(PACKAGES),
                    distribution=distribution,
                    machine=machine,
                    out=options.out,
                    compression=options.compression,
                )
                print("\n".join(str(path) for path in made), flush=True)
    except (PackagingError, TreeError) as error:
        print(f"packages.py: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, Unsupported) else EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
