"""Where do the packages of the virtual board come from?

From where this machine gets its own: the Debian archives among its apt sources, asked for the board's architecture. apt
keeps what it needs for that in a folder of ours, so nothing of this machine's changes.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

BOARD_ARCHITECTURE = "arm64"
_TARGET = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class NoPackages(Exception):
    """This machine can't get Debian packages for the board; the message says what is missing."""


def debian_sources() -> str:
    """The Debian archives that this machine is configured with, one line each, as in sources.list.

    Raises:
        NoPackages: there are none.
    """
    asked = ["apt-get", "indextargets", "--format", _TARGET, "Created-By: Packages", "Origin: Debian"]
    lines = dict.fromkeys(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines())
    if not lines:
        raise NoPackages("no Debian archive among this machine's apt sources (or `apt-get update` never ran)")
    return "".join(f"deb [signed-by={_KEYRING}] {line}\n" for line in lines)


class Apt:
    """apt with lists and settings of its own, for the board's architecture and that of this machine."""

    def __init__(self, folder: Path, *, sources: str) -> None:
        """Fetch the lists. `folder` must be empty or one of ours.

        Raises:
            NoPackages: the archives can't be reached, or have nothing for the board.
        """
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "state/status").touch()
        (folder / "sources.list").write_text(sources)
        host = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
        self.host_architecture = host.stdout.strip()
        (folder / "apt.conf").write_text(
            f'Dir::State "{folder}/state";\n'
            f'Dir::State::status "{folder}/state/status";\n'
            f'Dir::Cache "{folder}/cache";\n'
            f'Dir::Etc::sourcelist "{folder}/sources.list";\n'
            'Dir::Etc::sourceparts "-";\n'
            f'APT::Architecture "{BOARD_ARCHITECTURE}";\n'
            f'APT::Architectures {{ "{BOARD_ARCHITECTURE}"; "{self.host_architecture}"; }};\n'
            'APT::Sandbox::User "";\n'
            'Acquire::Languages "none";\n'
        )
        self._environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
        self._run(["apt-get", "--quiet", "update"])

    def dependencies(self, package: str) -> list[str]:
        """Names of the packages that a package depends on, in its own order."""
        said = self._run(["apt-cache", "depends", "--important", package])
        return [line.split()[-1] for line in said.splitlines() if line.strip().startswith("Depends:")]

    def download(self, packages: Sequence[str], into: Path) -> list[Path]:
        """Fetch packages; returns the files in the order of the names."""
        files = []
        for package in packages:
            before = set(into.iterdir())
            self._run(["apt-get", "--quiet", "download", package], folder=into)
            files += sorted(set(into.iterdir()) - before)
        return files

    def _run(self, command: list[str], *, folder: Path | None = None) -> str:
        done = subprocess.run(
            command, cwd=folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise NoPackages(f"`{' '.join(command)}` failed:\n{done.stderr.strip()}")
        return done.stdout
