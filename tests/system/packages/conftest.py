"""Where do the tests of packages get packages, and systems to install them on?"""

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.packages.debian_root import DebianRoot, make_root, require_programs, unpack_system
from tests.system.packages.package_files import build

ROOM_BYTES = 6 << 30
Builds = Callable[[str, str], Path]
"""From a package's name and a release of Debian to the package's file."""


class Installation(NamedTuple):
    """A system with a package, and what installing it printed."""

    system: DebianRoot
    said: str


Installations = Callable[[str, str], Installation]
"""From a package's name and a release of Debian to a system that has it."""


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A folder for systems: in memory where there is room, or the disk's pace is the tests' pace."""
    memory = Path("/dev/shm")
    is_roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    folder = Path(tempfile.mkdtemp(prefix="shoal-packages-", dir=memory if is_roomy else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def builds(scratch: Path) -> Builds:
    """Builds each package once, for this machine and without compression, when it is first asked for."""
    require_programs()
    if importlib.util.find_spec("uv") is None:
        pytest.skip(f"uv is not installed for {sys.executable}")
    made: dict[tuple[str, str], Path] = {}

    def get(name: str, suite: str) -> Path:
        if (name, suite) not in made:
            made[name, suite] = build(name, suite=suite, out=scratch / "built" / suite, temporary=scratch)
        return made[name, suite]

    return get


@pytest.fixture(scope="session")
def bare_systems(scratch: Path) -> Callable[[str], Path]:
    """Unpacks each release of Debian once."""
    require_programs()
    unpacked: dict[str, Path] = {}

    def get(suite: str) -> Path:
        if suite not in unpacked:
            unpacked[suite] = unpack_system(suite, folder=scratch / suite)
        return unpacked[suite]

    return get


@pytest.fixture(scope="session")
def installations(scratch: Path, bare_systems: Callable[[str], Path], builds: Builds) -> Installations:
    """Installs each package once on each release of Debian."""
    made: dict[tuple[str, str], Installation] = {}

    def get(name: str, suite: str) -> Installation:
        if (name, suite) not in made:
            system = make_root([bare_systems(suite)], folder=scratch / f"{name}-{suite}")
            made[name, suite] = Installation(system, system.install(builds(name, suite)).stdout)
        return made[name, suite]

    return get


@pytest.fixture
def install(scratch: Path, installations: Installations) -> Iterator[Installations]:
    """Gives the test systems of its own on which a package was just installed."""
    folder = Path(tempfile.mkdtemp(dir=scratch))

    def get(name: str, suite: str) -> Installation:
        done = installations(name, suite)
        return Installation(done.system.on_top(folder / f"{name}-{suite}"), done.said)

    yield get
    shutil.rmtree(folder, ignore_errors=True)
