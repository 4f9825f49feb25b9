"""What do a variant's numbers come to, beside the fp32 variant of its own format? And how are numbers written?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from shoal_converters.gains import best_speed, compare_speeds
from shoal_converters.report.results import Interval, Report, Speed, VariantResult

NOTHING = "–"
"""What stands where there is no number."""


class Figures(NamedTuple):
    """Of one variant. Ratios are against the fp32 variant of the same format, and None where there is none."""

    fp32: VariantResult | None
    size_ratio: float | None
    fastest: Speed | None
    """The least p50 latency of exact computing."""
    speed_ratio: float | None
    """How many times as fast, in the engines that both were measured in."""
    answers_per_s: float | None
    """The most of any setting that computes exactly."""
    joules: float | None
    """The least of any such setting."""


def find_figures(variant: VariantResult, report: Report) -> Figures:
    """The numbers of a variant of a report."""
    fp32 = _fp32_of(variant, report.variants)
    exact = [speed for speed in variant.speeds if speed.precision == "exact"]
    pair = compare_speeds(variant, fp32) if fp32 else None
    return Figures(
        fp32=fp32,
        size_ratio=variant.size_bytes / fp32.size_bytes if fp32 and fp32.size_bytes else None,
        fastest=best_speed(variant.speeds),
        speed_ratio=pair.ratio if pair else None,
        answers_per_s=max((speed.answers_per_s for speed in exact), default=None),
        joules=min((speed.joules for speed in exact if speed.joules is not None), default=None),
    )


def write_value(value: float | None, *, digits: int = 4) -> str:
    """A metric."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def write_interval(interval: Interval | None) -> str:
    """With 95 % confidence."""
    return "" if interval is None else f"{write_value(interval.low)} to {write_value(interval.high)}"


def write_signed(value: float | None) -> str:
    """A change, with its sign; a loss has a minus."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{round(value, 4) or 0.0:{'+' if round(value, 4) else ''}.4f}".replace("-", "−")


def write_size(size_bytes: int) -> str:
    """`5.0 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return (
                f"{size_bytes / scale:.3g} {unit}" if size_bytes < 1000 * scale else f"{size_bytes / scale:.0f} {unit}"
            )
    return f"{size_bytes} B"


def write_figure(value: float | None, *, unit: str = "") -> str:
    """Three significant digits, without an exponent."""
    if value is None or not math.isfinite(value):
        return NOTHING
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(digits, 6)}f}{unit and ' ' + unit}"


def write_ratio(ratio: float | None) -> str:
    """`0.27 ×`."""
    return NOTHING if ratio is None else f"{ratio:.2f} ×"


def _fp32_of(variant: VariantResult, variants: Sequence[VariantResult]) -> VariantResult | None:
    return next(
        (
            one
            for one in variants
            if one.format == variant.format and one.precision == "fp32" and one.name != variant.name
        ),
        None,
    )
