"""What about this board decides whether an earlier verdict still holds?"""

import platform
from pathlib import Path

SYSTEM = Path("/sys")
PROCESSORS = Path("/proc/cpuinfo")
UNKNOWN = "unknown"
WARM_CELSIUS = 60.0
HOT_CELSIUS = 75.0
"""Boards slow down from 80 °C (Raspberry Pi documentation, "Frequency management and thermal control") or later."""


def read_processor(path: Path = PROCESSORS) -> str:
    """Name of the processor, as the kernel has it; the architecture where it has none (as on most Arm boards)."""
    try:
        fields = [line.partition(":") for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        fields = []
    names = {key.strip(): value.strip() for key, _, value in reversed(fields)}
    parts = [names[key] for key in ("model name", "CPU part", "Model") if names.get(key)]
    return " ".join([platform.machine(), *parts])[:200]


def read_governor(system: Path = SYSTEM) -> str:
    """Which rule sets the clock of the first processor."""
    path = system / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    try:
        return path.read_text().strip()
    except OSError:
        return UNKNOWN


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
