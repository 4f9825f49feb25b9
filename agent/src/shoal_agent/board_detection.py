"""Which device profile is this board's, and by what is that told?

By the device tree's `compatible` on Arm boards, whose names go from the board to its chip, so the first that a profile
claims counts; by the processor's name on x86. What each profile claims stands in its file. A virtual machine is no
board, whatever processor it was given, and neither is one whose processor is a program. Then, and where no profile
claims the board, it is `generic-<machine>`.
"""

import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from shoal_wire.device_profile import DeviceProfile

from shoal_agent.board import read_emulation
from shoal_agent.profiles import load_profiles

MACHINE = platform.machine()
MAX_BYTES = 64 << 10
"""Of a file: the first processor of /proc/cpuinfo and all of a `compatible` are in it."""
MAX_CHARACTERS = 120


class Traits(NamedTuple):
    """What kernel and firmware show of a board; each is empty where there is no such thing."""

    machine: str
    """As `uname -m` prints it."""
    model: str = ""
    """Of the device tree."""
    compatible: tuple[str, ...] = ()
    """Of the device tree's root."""
    vendor: str = ""
    product: str = ""
    """DMI."""
    processor: str = ""
    """Of the first one (x86)."""
    instructions: frozenset[str] = frozenset()
    """Of the first processor, as /proc/cpuinfo names them."""
    emulation: str = ""
    """What gives the board away as a program, in words."""


class Detection(NamedTuple):
    """Name of a profile, which need not be there, and why it is that one."""

    profile: str
    reason: str


def read_traits(root: Path = Path("/"), *, machine: str = MACHINE) -> Traits:
    """What is to be seen under `root`, which holds proc and sys."""
    proc, system = root / "proc", root / "sys"
    dmi = system / "class/dmi/id"
    cpuinfo = _read(proc / "cpuinfo").decode(errors="replace")
    words = f"{_field(cpuinfo, 'flags')} {_field(cpuinfo, 'Features')}"
    compatible = _read(proc / "device-tree/compatible").split(b"\0")
    return Traits(
        machine=machine,
        model=_clean(_read(proc / "device-tree/model")),
        compatible=tuple(name for name in map(_clean, compatible) if name),
        vendor=_clean(_read(dmi / "sys_vendor")),
        product=_clean(_read(dmi / "product_name")),
        processor=_clean(_field(cpuinfo, "model name").encode()),
        instructions=frozenset(words.split()),
        emulation=read_emulation(proc=proc, system=system, machine=machine),
    )


def detect(traits: Traits, profiles: Iterable[DeviceProfile]) -> Detection:
    """The profile of a board with these traits."""
    known = tuple(profiles)
    generic = f"generic-{traits.machine.replace('_', '-')}"
    if traits.emulation:
        return Detection(generic, f"its processor is a program: {traits.emulation}")
    if "hypervisor" in traits.instructions:
        return Detection(generic, "it is a virtual machine: the processor has the flag hypervisor")
    found = _by_device_tree(traits, known) or _by_processor(traits, known)
    if found is None:
        return Detection(generic, _nothing_known(traits, number=len(known)))
    profile, reason = found
    if profile.architecture.value != traits.machine:
        wanted = profile.architecture.value
        return Detection(generic, f"{reason}, but its system is {traits.machine} and {profile.name} is {wanted}")
    return Detection(profile.name, reason)


def detect_here() -> Detection:
    """The profile of this board, among those that lie on it."""
    return detect(read_traits(), load_profiles().known)


def _by_device_tree(traits: Traits, profiles: Iterable[DeviceProfile]) -> tuple[DeviceProfile, str] | None:
    owners = {name: profile for profile in profiles for name in profile.compatible}
    for name in traits.compatible:
        if name in owners:
            called = f" ({traits.model})" if traits.model else ""
            return owners[name], f"the device tree says {name}{called}"
    return None


def _by_processor(traits: Traits, profiles: Iterable[DeviceProfile]) -> tuple[DeviceProfile, str] | None:
    """By the longest beginning that fits."""
    owners = {name: profile for profile in profiles for name in profile.processor_names}
    fitting = [name for name in owners if re.match(rf"{re.escape(name)}(?!\w)", traits.processor)]
    if not fitting:
        return None
    called = f"{traits.vendor} {traits.product}".strip()
    reason = f"the processor is {traits.processor}" + (f", the computer {called}" if called else "")
    return owners[max(fitting, key=len)], reason


def _nothing_known(traits: Traits, *, number: int) -> str:
    if not number:
        return "there are no device profiles on this board"
    name = traits.model or ", ".join(traits.compatible) or traits.processor or f"{traits.vendor} {traits.product}"
    if not name.strip():
        return "neither device tree nor processor says what board it is"
    return f"none of the {number} device profiles claims {name.strip()}"


def _field(cpuinfo: str, name: str) -> str:
    found = re.search(rf"^{name}[ \t]*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    return found[1] if found else ""


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def _clean(raw: bytes) -> str:
    """Text of firmware, which may hold anything, as something that can be printed on one line."""
    text = raw.decode(errors="replace").replace("\0", " ")
    return "".join(character if character.isprintable() else "?" for character in text.strip())[:MAX_CHARACTERS]
