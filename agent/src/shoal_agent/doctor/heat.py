"""Is the board too hot, or slowed down for its heat?

What its device profile says of its firmware's limits counts first. Without it the trip points of the hottest thermal
zone do (kernel documentation, "Generic Thermal Sysfs driver"): `passive` slows down, `hot` and `critical` are the end.
Where neither is known, a board that is cooler than any that slows down is good, and a hotter one may be.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from shoal_wire.device_profile import ThermalLimits

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Finding, Health
from shoal_agent.doctor.reading import read_number, read_text
from shoal_agent.doctor.supply import read_throttled

NEAR_CELSIUS = 5.0
EARLIEST_CELSIUS = 80.0
"""From here on the first boards slow down (Raspberry Pi documentation, "Frequency management and thermal control")."""
PLAUSIBLE_CELSIUS = (-40.0, 150.0)
COOLER = "give it air, a heat sink or a fan, or less to do (threads in agent.toml)"

SLOWED = (1 << 1) | (1 << 2) | (1 << 3)
"""Clock capped, throttled, soft limit of temperature (Raspberry Pi documentation, "vcgencmd get_throttled")."""


class Zone(NamedTuple):
    """A thermal zone. `trips`: the lowest temperature of each kind of trip point."""

    name: str
    celsius: float
    trips: Mapping[str, float]


def check_heat(board: Board) -> Finding:
    """The hottest zone against the limits that are known."""
    zones = read_zones(board.system)
    if not zones:
        return Finding(Health.UNKNOWN, "no thermal zone can be read")
    hottest = max(zones, key=lambda zone: zone.celsius)
    promised = board.profile.thermal_limits if board.profile else None
    limits = promised or _trip_limits(hottest)
    finding = _judge(hottest, limits)
    bits = read_throttled(board.system) or 0
    if bits & SLOWED and finding.health is Health.GOOD:
        words = f"{finding.words}; the firmware slows the cores down (get_throttled {bits:#x})"
        return Finding(Health.WARNING, words, f"{COOLER}; see the line on supply, which slows down as well")
    return finding


def read_zones(system: Path) -> tuple[Zone, ...]:
    """The zones that can be read: those of parts that are off can't, on some boards."""
    zones = []
    for folder in sorted((system / "class/thermal").glob("thermal_zone*")):
        celsius = _read_celsius(folder / "temp")
        if celsius is not None:
            zones.append(Zone(read_text(folder / "type") or folder.name, celsius, _read_trips(folder)))
    return tuple(zones)


def _judge(zone: Zone, limits: ThermalLimits | None) -> Finding:
    words = f"{zone.name} has {zone.celsius:.0f} °C"
    if limits is None:
        is_cool = zone.celsius < EARLIEST_CELSIUS - NEAR_CELSIUS
        words += "; this board's limits aren't known"
        return Finding(Health.GOOD, words) if is_cool else Finding(Health.WARNING, words, COOLER)
    words += f", is slowed down from {limits.slowed_from_celsius:.0f} °C on"
    if zone.celsius >= limits.limit_celsius:
        return Finding(Health.BAD, f"{words} and at its limit of {limits.limit_celsius:.0f} °C", COOLER)
    if zone.celsius >= limits.slowed_from_celsius - NEAR_CELSIUS:
        return Finding(Health.WARNING, words, COOLER)
    return Finding(Health.GOOD, words)


def _trip_limits(zone: Zone) -> ThermalLimits | None:
    ends = [zone.trips[kind] for kind in ("hot", "critical") if kind in zone.trips]
    if not ends:
        return None
    return ThermalLimits(
        slowed_from_celsius=min(zone.trips.get("passive", min(ends)), min(ends)), limit_celsius=min(ends)
    )


def _read_trips(folder: Path) -> dict[str, float]:
    trips: dict[str, float] = {}
    for path in sorted(folder.glob("trip_point_*_type")):
        kind = read_text(path)
        celsius = _read_celsius(path.with_name(path.name.replace("_type", "_temp")))
        if celsius is not None and celsius > 0:  # 0 and less: a trip point that is turned off
            trips[kind] = min(celsius, trips.get(kind, celsius))
    return trips


def _read_celsius(path: Path) -> float | None:
    number = read_number(path)
    lowest, highest = PLAUSIBLE_CELSIUS
    if number is None or not lowest <= number / 1000 <= highest:
        return None
    return number / 1000
