"""How much energy does this board use, if it has a meter?

Counters of energy are read before and after (RAPL: kernel.org, "Power Capping Framework"; hwmon energyN_input). Where
there are sensors of power only (hwmon powerN_input), a thread reads them many times a second. All is of the whole
package or board, other programs included.
"""

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

SYSTEM = Path("/sys")
SAMPLE_S = 0.02


class Meter(Protocol):
    """What energy is read from."""

    name: str

    def start(self) -> None:
        """Begin to count."""

    def stop(self) -> float | None:
        """Joules since `start`; None where the meter fell silent or this board has none."""


class NoMeter:
    """A board without a meter."""

    name = ""

    def start(self) -> None:
        """See `Meter`."""

    def stop(self) -> float | None:
        """See `Meter`."""
        return None


class Counter(NamedTuple):
    """A file that counts microjoules, and where it begins anew; 0 where it never does."""

    path: Path
    range_uj: int


class CounterMeter:
    """Sums counters of energy."""

    def __init__(self, name: str, counters: Sequence[Counter]) -> None:
        self.name = name
        self._counters = counters
        self._before: list[int] = []

    def start(self) -> None:
        """See `Meter`."""
        self._before = self._read()

    def stop(self) -> float | None:
        """See `Meter`. A counter that began anew since is followed once."""
        after = self._read()
        if not after or len(after) != len(self._before):
            return None
        pairs = zip(self._counters, self._before, after, strict=True)
        used = [end - begin if end >= begin else end - begin + counter.range_uj for counter, begin, end in pairs]
        return sum(used) / 1e6

    def _read(self) -> list[int]:
        try:
            return [int(counter.path.read_text()) for counter in self._counters]
        except (OSError, ValueError):
            return []


class PowerMeter:
    """Adds up readings of power over time."""

    def __init__(self, name: str, sensors: Sequence[Path]) -> None:
        self.name = name
        self._sensors = sensors
        self._joules: float | None = 0.0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """See `Meter`."""
        self._joules = 0.0
        self._done.clear()
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> float | None:
        """See `Meter`."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        return self._joules

    def _sample(self) -> None:
        before = time.monotonic()
        is_over = False
        while not is_over:
            is_over = self._done.wait(SAMPLE_S)
            now = time.monotonic()
            try:
                watts = sum(int(sensor.read_text()) for sensor in self._sensors) / 1e6
            except (OSError, ValueError):
                self._joules = None
                return
            self._joules = (self._joules or 0.0) + watts * (now - before)
            before = now


def find_meter(system: Path = SYSTEM) -> Meter:
    """The best meter that this program may read."""
    packages = sorted((system / "class/powercap").glob("intel-rapl:[0-9]*/energy_uj"))
    packages = [path for path in packages if path.parent.name.count(":") == 1 and _is_readable(path)]
    if packages:
        return CounterMeter(
            "RAPL", [Counter(path, _number(path.with_name("max_energy_range_uj"))) for path in packages]
        )
    energies = [path for path in sorted((system / "class/hwmon").glob("*/energy*_input")) if _is_readable(path)]
    if energies:
        return CounterMeter("hwmon energy", [Counter(path, 0) for path in energies[:1]])
    powers = [path for path in sorted((system / "class/hwmon").glob("*/power*_input")) if _is_readable(path)]
    if powers:
        return PowerMeter("hwmon power", powers[:1])
    return NoMeter()


def _is_readable(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        int(path.read_text())
        return True
    return False


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
