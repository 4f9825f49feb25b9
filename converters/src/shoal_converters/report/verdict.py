"""What came out of a build, in one sentence?"""

from collections.abc import Sequence

from shoal_converters.report.figures import Figures, find_figures, write_value
from shoal_converters.report.results import Report, VariantResult


def tell_verdict(report: Report) -> str:
    """What is released and what that gains; what isn't, and why; what could not be made."""
    released = [one for one in report.variants if one.is_released]
    dropped = [one for one in report.variants if not one.is_released]
    parts = [_tell_released(report, released)]
    parts += _tell_gains(report, released)
    if dropped:
        parts.append(f"not released: {_list_names(dropped)}")
    if report.missing:
        parts.append(f"could not be made here: {', '.join(report.missing)}")
    return "; ".join(parts) + "."


def _tell_released(report: Report, released: Sequence[VariantResult]) -> str:
    made = len(report.variants)
    what = f"{report.name} version {report.version}"
    items = f"{report.samples:,} item{'s' if report.samples > 1 else ''}"
    value = f"the original's {report.metric} of {write_value(report.original.value)} on {items}"
    if not released:
        return f"Nothing of {what} is released, where {value} may drop by {report.max_drop:g}"
    count = f"All {made} variants" if len(released) == made else f"{len(released)} of {made} variants"
    count = "The only variant" if made == 1 else count
    are = "is" if len(released) == 1 else "are"
    return f"{count} of {what} {are} released, within {report.max_drop:g} of {value}"


def _tell_gains(report: Report, released: Sequence[VariantResult]) -> list[str]:
    """The largest true gains."""
    figures = {one.name: find_figures(one, report) for one in released}
    smaller = [one for one in released if "smaller" in one.gains and figures[one.name].size_ratio]
    faster = [one for one in released if "faster" in one.gains and figures[one.name].speed_ratio]
    least = min(smaller, key=lambda one: figures[one.name].size_ratio or 1.0, default=None)
    most = max(faster, key=lambda one: figures[one.name].speed_ratio or 1.0, default=None)
    told = []
    if least:
        told.append(
            f"{least.name} has {figures[least.name].size_ratio:.2f} × the size of {_fp32_name(figures[least.name])}"
        )
    if most and most is least:
        told[0] += f" and is {figures[most.name].speed_ratio:.1f} × as fast on this machine"
    elif most:
        told.append(
            f"{most.name} is {figures[most.name].speed_ratio:.1f} × as fast as {_fp32_name(figures[most.name])} "
            "on this machine"
        )
    return told


def _fp32_name(figures: Figures) -> str:
    return figures.fp32.name if figures.fp32 else "the original"


def _list_names(variants: Sequence[VariantResult]) -> str:
    return ", ".join(f"{one.name} ({one.reason})" if one.reason else one.name for one in variants)
