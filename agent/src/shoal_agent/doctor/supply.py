"""Does the board get enough power?

Raspberry Pis tell by the driver raspberrypi-hwmon (in0_lcrit_alarm) and by the older file get_throttled. The second is
not to be believed when it says that all is well: it holds what the kernel last asked the firmware, which without that
driver is nothing, and its upper half ("since the start") is cleared by every asking (Raspberry Pi's kernel,
drivers/firmware/raspberrypi.c; Linux, drivers/hwmon/raspberrypi-hwmon.c). Jetsons count over-current events.
"""

from collections.abc import Iterator
from pathlib import Path

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Finding, Health, worst
from shoal_agent.doctor.reading import read_number, read_text

BETTER_SUPPLY = "use the supply that the board's maker asks for, a short thick cable, and a powered hub for USB devices"
LOW_PERCENT = 15

UNDER_VOLTAGE = 1 << 0
UNDER_VOLTAGE_SEEN = 1 << 16
"""Raspberry Pi documentation, "vcgencmd get_throttled"."""


def check_supply(board: Board) -> Finding:
    """What all that tells of the supply says."""
    findings = [*_alarms(board.system), *_throttled(board.system), *_over_currents(board.system)]
    findings += _sources(board.system)
    if not findings:
        return Finding(Health.UNKNOWN, "nothing on this board tells how good its supply is")
    return worst(findings)


def read_throttled(system: Path) -> int | None:
    """The bits of get_throttled; None where there is no such file."""
    for path in sorted((system / "devices/platform").glob("soc*/*firmware/get_throttled")):
        bits = read_number(path, base=16)
        if bits is not None:
            return bits
    return None


def _alarms(system: Path) -> Iterator[Finding]:
    for path in sorted((system / "class/hwmon").glob("*/in0_lcrit_alarm")):
        alarm = read_number(path)
        if alarm:
            yield Finding(Health.BAD, "the supply is too low now (in0_lcrit_alarm)", BETTER_SUPPLY)
        elif alarm == 0:
            yield Finding(Health.GOOD, "the supply is high enough now")


def _throttled(system: Path) -> Iterator[Finding]:
    """0 says nothing, and is left out."""
    bits = read_throttled(system) or 0
    if bits & UNDER_VOLTAGE:
        yield Finding(Health.BAD, f"the supply is too low (get_throttled {bits:#x})", BETTER_SUPPLY)
    elif bits & UNDER_VOLTAGE_SEEN:
        yield Finding(Health.WARNING, f"the supply was too low (get_throttled {bits:#x})", BETTER_SUPPLY)


def _over_currents(system: Path) -> Iterator[Finding]:
    """NVIDIA Jetson Linux Developer Guide, "Over-Current Throttling": events since the start."""
    counts = {path.name.partition("_")[0]: read_number(path) for path in _event_counters(system)}
    events = {name: count for name, count in counts.items() if count}
    if events:
        told = ", ".join(f"{name} {count}" for name, count in events.items())
        advice = "use a stronger supply, or a lower power mode (nvpmodel)"
        yield Finding(Health.WARNING, f"the board was slowed down for its supply since the start: {told}", advice)
    elif counts:
        yield Finding(Health.GOOD, "no over-current events since the start")


def _event_counters(system: Path) -> list[Path]:
    return sorted((system / "class/hwmon").glob("*/oc[0-9]_event_cnt"))


def _sources(system: Path) -> Iterator[Finding]:
    """Mains and batteries (kernel documentation, "Linux power supply class")."""
    mains, batteries = [], []
    for folder in sorted((system / "class/power_supply").glob("*")):
        if read_text(folder / "scope") == "Device":
            continue  # a mouse's or a keyboard's own
        kind = read_text(folder / "type")
        if kind == "Battery":
            batteries.append(read_number(folder / "capacity"))
        elif kind in ("Mains", "USB", "Wireless"):
            mains.append(read_number(folder / "online"))
    if any(mains):
        yield Finding(Health.GOOD, "it runs on mains")
    elif batteries and 0 in mains:
        percent = [number for number in batteries if number is not None]
        left = f" at {min(percent)} %" if percent else ""
        is_low = bool(percent) and min(percent) < LOW_PERCENT
        health = Health.BAD if is_low else Health.WARNING
        yield Finding(health, f"it runs on battery{left}", "connect its supply")
