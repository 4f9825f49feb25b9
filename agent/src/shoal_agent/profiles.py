"""Which device profiles are on this board?

They come with the agent's package, lie in a source tree, or where `SHOAL_PROFILES` says. An agent without any works:
it only knows less of its board.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from shoal_wire.device_profile import MAX_PROFILE_BYTES, DeviceProfile, parse_profile
from shoal_wire.errors import Malformed

VARIABLE = "SHOAL_PROFILES"
INSTALLED = Path("/usr/share/shoal/device_profiles")
SOURCE_TREE = Path(__file__).resolve().parents[3] / "device_profiles"


class Profiles(NamedTuple):
    """What a folder holds; `folder` is None where there is none."""

    folder: Path | None = None
    known: tuple[DeviceProfile, ...] = ()
    faults: tuple[str, ...] = ()
    """Files that can't be used, with the reason: one bad file doesn't hide the others."""

    def find(self, name: str) -> DeviceProfile | None:
        """The profile of that name. An earlier agent wrote `generic-x86_64` for `generic-x86-64`."""
        wanted = name.replace("_", "-")
        return next((profile for profile in self.known if profile.name == wanted), None)


NO_PROFILES = Profiles()


def find_folder(environment: Mapping[str, str]) -> Path | None:
    """Where the profiles lie; None where nobody put any."""
    named = environment.get(VARIABLE)
    places = [Path(named)] if named else [SOURCE_TREE, INSTALLED]
    return next((place for place in places if place.is_dir()), None)


def load_profiles(environment: Mapping[str, str] = os.environ) -> Profiles:
    """All that can be read, by name."""
    folder = find_folder(environment)
    if folder is None:
        return NO_PROFILES
    known, faults = [], []
    for path in sorted(folder.glob("*.toml")):
        try:
            with path.open("rb") as file:
                known.append(parse_profile(file.read(MAX_PROFILE_BYTES + 1)))
        except (OSError, Malformed) as error:
            faults.append(f"{path}: {error}")
    return Profiles(folder, tuple(known), tuple(faults))


def find_profile(name: str, *, environment: Mapping[str, str] = os.environ) -> DeviceProfile | None:
    """The profile of that name; None where this board has none."""
    return load_profiles(environment).find(name)
