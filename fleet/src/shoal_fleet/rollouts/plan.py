"""In which waves does a rollout go out, and what must each show before the next begins?"""

from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import encode

MAX_WAVES = 32
DAY_S = 86_400.0

_Share = Annotated[float, Meta(ge=0, le=1)]
_Seconds = Annotated[float, Meta(ge=0, le=365 * DAY_S)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a wave must show."""

    min_success: _Share = 1.0
    """Share of the wave's devices that must have succeeded; those that are silent count for neither side."""
    max_failed: _Count = 0
    """Devices that may go back or refuse. One more stops the wave at once."""
    silence_s: _Seconds = DAY_S
    """A device that hasn't ended so long after it was told is silent: nobody knows what became of it."""
    max_silent: _Share = 0.1
    """Share of the wave's devices that may be silent."""


class Wave(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the devices. Without `count`, `percent` and `where` it is all that are left, as the last one is."""

    count: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    """Of all the devices of the rollout."""
    where: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    """An expression: the devices that it means, whatever the others take."""
    soak_s: _Seconds = 0.0
    """For so long its devices run the release before the next wave begins."""
    gate: Gate | None = None
    """None: that of the rollout."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a rollout goes out. Without waves all devices are told at once, and nothing is judged but each by itself."""

    target: Annotated[str, Meta(max_length=2000)] = ""
    """The expression that means the devices; empty where they were named."""
    waves: Annotated[tuple[Wave, ...], Meta(max_length=MAX_WAVES)] = ()
    gate: Gate = Gate()
    rolls_back: bool = True
    """What a failed gate does: the wave's devices go back and the rollout ends, else it pauses."""
    late_joiners: bool = True
    """Devices that come to be meant while it goes on take part, under the same gates."""

    def gate_of(self, number: int) -> Gate:
        """Of the wave of that number, which count from 1."""
        return self.waves[number - 1].gate or self.gate


def write_plan(plan: Plan) -> str:
    """As a rollout keeps it; empty for one that says nothing."""
    return "" if plan == Plan() else encode(plan).decode()


def read_plan(text: str) -> Plan:
    """What `write_plan` wrote."""
    return msgspec.json.decode(text, type=Plan) if text else Plan()


def wrong_wave(waves: tuple[Wave, ...]) -> str | None:
    """What is wrong with waves, in words; None where nothing is."""
    for number, wave in enumerate(waves, start=1):
        sizes = [name for name in ("count", "percent", "where") if getattr(wave, name) is not None]
        if len(sizes) > 1:
            return f"wave {number}: expected one of count, percent and where, found {' and '.join(sizes)}"
        if not sizes and number < len(waves):
            return f"wave {number}: expected count, percent or where; only the last wave takes what is left"
    return None
