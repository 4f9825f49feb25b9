"""Where do the device profiles lie on this machine, and what do they say?

The command never asks the server for them: they come with its package, or lie in a source tree.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from shoal_wire.device_profile import MAX_PROFILE_BYTES, DeviceProfile, parse_profile
from shoal_wire.errors import Malformed

from shoal_fleet.command.errors import CommandError, NotFound, UsageError

VARIABLE = "SHOAL_PROFILES"
INSTALLED = Path("/usr/share/shoal/device_profiles")
SOURCE_TREE = Path(__file__).resolve().parents[4] / "device_profiles"


def find_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of profiles.

    Raises:
        UsageError: there is none; says where one was looked for.
    """
    named = environment.get(VARIABLE)
    places = [Path(named)] if named else [SOURCE_TREE, INSTALLED]
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(map(str, places))
    raise UsageError(f"no device profiles in {looked}: name their folder in {VARIABLE}")


def load_profiles(folder: Path) -> list[DeviceProfile]:
    """All profiles of a folder, by name.

    Raises:
        CommandError: one can't be read; `shoal profile check` says more.
    """
    return [load_profile(path) for path in sorted(folder.glob("*.toml"))]


def find_profile(folder: Path, name: str) -> DeviceProfile:
    """The profile of that name.

    Raises:
        NotFound: names those that there are.
    """
    profiles = {profile.name: profile for profile in load_profiles(folder)}
    if name not in profiles:
        raise NotFound(f"device profile {name}: {folder} has {', '.join(profiles) or 'none'}")
    return profiles[name]


def load_profile(path: Path) -> DeviceProfile:
    """One file.

    Raises:
        CommandError: it can't be read, or isn't a profile.
    """
    try:
        return parse_profile(read_bounded(path))
    except Malformed as error:
        raise CommandError(f"{path}: {error}") from None


def read_bounded(path: Path) -> bytes:
    """The bytes of a file, one more than a profile may have at most.

    Raises:
        CommandError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_PROFILE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
