"""What kind of board is this, as far as its kernel and firmware tell?

Daemon and tuning both ask, so this imports no NumPy. Some of it decides whether an earlier verdict still holds.
"""

import platform
from pathlib import Path

from shoal_wire.tuning import BoardKind

from shoal_agent.emulation import Signs, find_sign

PROC = Path("/proc")
SYSTEM = Path("/sys")
MACHINE = platform.machine()
UNKNOWN = "unknown"
WARM_CELSIUS = 60.0
HOT_CELSIUS = 75.0
"""Boards slow down from 80 °C (Raspberry Pi documentation, "Frequency management and thermal control") or later."""
MAX_CHARACTERS = 200


def read_kind(*, processors: int, proc: Path = PROC, system: Path = SYSTEM) -> BoardKind:
    """The kind of this board. `processors`: threads that all workers together may use."""
    return BoardKind(
        architecture=platform.machine(),
        board=read_name(proc=proc, system=system),
        processor=read_processor(proc / "cpuinfo"),
        processors=processors,
        governor=read_governor(system),
        is_emulated=bool(read_emulation(proc=proc, system=system)),
    )


def read_emulation(*, proc: Path = PROC, system: Path = SYSTEM, machine: str = MACHINE) -> str:
    """What gives this board away as one whose processor is a program; empty where nothing does.

    `machine` is what `uname -m` prints.
    """
    names = _read(system / "devices/system/clocksource/clocksource0/available_clocksource")
    clocks = [_read(path) for path in sorted((system / "class/ptp").glob("ptp*/clock_name"))]
    return find_sign(
        Signs(
            machine=machine,
            kernel_machine=_read(proc / "sys/kernel/arch"),
            processors=_read(proc / "cpuinfo"),
            vendor=_read(system / "class/dmi/id/sys_vendor"),
            product=_read(system / "class/dmi/id/product_name"),
            compatible=_read(proc / "device-tree/compatible"),
            clocks=(*names.split(), *clocks),
        )
    )


def read_name(*, proc: Path = PROC, system: Path = SYSTEM) -> str:
    """What the firmware calls the board: by device tree, or vendor and product by DMI; empty where it has no name."""
    dmi = system / "class/dmi/id"
    name = _read(proc / "device-tree/model") or f"{_read(dmi / 'sys_vendor')} {_read(dmi / 'product_name')}"
    return name.strip()[:MAX_CHARACTERS]


def read_processor(path: Path = PROC / "cpuinfo") -> str:
    """Name of the processor, as the kernel has it; the architecture where it has none (as on most Arm boards)."""
    fields = [line.partition(":") for line in _read(path).splitlines()]
    names = {key.strip(): value.strip() for key, _, value in reversed(fields)}
    parts = [names[key] for key in ("model name", "CPU part", "Model") if names.get(key)]
    return " ".join([platform.machine(), *parts])[:MAX_CHARACTERS]


def read_governor(system: Path = SYSTEM) -> str:
    """Which rule sets the clock of the first processor."""
    return _read(system / "devices/system/cpu/cpu0/cpufreq/scaling_governor") or UNKNOWN


def read_thermal_class(system: Path = SYSTEM) -> str:
    """How warm the warmest sensor is: cool, warm or hot; unknown where there is none that can be read."""
    celsius = []
    for path in sorted((system / "class/thermal").glob("thermal_zone*/temp")):
        try:
            celsius.append(int(path.read_text()) / 1000)
        except (OSError, ValueError):
            continue
    return thermal_class(max(celsius)) if celsius else UNKNOWN


def thermal_class(celsius: float) -> str:
    """The class of a temperature."""
    if celsius < WARM_CELSIUS:
        return "cool"
    return "warm" if celsius < HOT_CELSIUS else "hot"


def _read(path: Path) -> str:
    """A short file as text, without the zeros that a device tree ends its texts with; empty where there is none."""
    try:
        return path.read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""
