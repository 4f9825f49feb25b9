"""What did a build come to: a row for each variant, and all rows as a table?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from shoal_converters.evaluation import USUAL_ENGINES
from shoal_converters.paths import FULL_PRECISION
from shoal_converters.report.results import Interval, Report, Speed, VariantResult

INT8 = ("int8",)
INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""x86 (VNNI, AMX) and Arm. Without one of them INT8 needs several instructions for what float32 does in one."""
TWICE = 2.0
"""As fast as its own fp32: what is asked of INT8 where the processor has instructions for it."""
WIDTHS = (26, 20, 8, 8, 17, 8, 6, 8, 8, 9)
HEADER = ("model", "variant", "original", "variant", "95 %", "drop", "size", "answer", "alone", "released")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A variant. Ratios are against the full-precision one of its format; None where there is none, or no number."""

    variant: str
    precision: str
    value: float | None
    interval: Interval | None
    drop: float | None
    agreement: float | None
    """How far it says what the original says, on average."""
    size_ratio: float | None
    answer_ratio: float | None
    """How many times as fast a whole answer comes, in the format's usual engine with one thread, computing exactly."""
    inference_ratio: float | None
    """The same of one inference alone; known of released variants."""
    is_released: bool
    gains: tuple[str, ...]
    reason: str


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A form that was made here, beside the same network as its makers give it."""

    form: str
    shipped: str
    output: str
    rms: float
    """Of the difference, relative to what the makers' gives."""
    largest: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Of one model."""

    model: str
    seconds: float
    failed: str = ""
    """What the workbench said where it gave no release."""
    metric: str = ""
    items: int = 0
    original: float | None = None
    rows: tuple[Row, ...] = ()
    missing: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    int8_instructions: tuple[str, ...] = ()
    """Of the processor that this was measured on."""
    machine: str = ""
    versions: dict[str, str] = {}


def make_rows(report: Report, inference_ratios: Mapping[str, float]) -> tuple[Row, ...]:
    """A row for each variant of a report."""
    full = {one.format: one for one in report.variants if one.name in FULL_PRECISION}
    return tuple(
        Row(
            variant=one.name,
            precision=one.precision,
            value=one.value,
            interval=one.interval,
            drop=one.drop,
            agreement=one.agreement,
            size_ratio=one.size_bytes / full[one.format].size_bytes if _is_other(one, full) else None,
            answer_ratio=_compare_answers(one, full[one.format]) if _is_other(one, full) else None,
            inference_ratio=inference_ratios.get(one.name),
            is_released=one.is_released,
            gains=one.gains,
            reason=one.reason,
        )
        for one in report.variants
    )


def write_table(results: Sequence[Result]) -> str:
    """All rows, then why what isn't released isn't, and what could not be made."""
    lines = [_line(HEADER)]
    for result in results:
        lines += [_write_row(result, row) for row in result.rows]
        lines += [f"{result.model}: {result.failed}"] if result.failed else []
    lines.append("")
    for result in results:
        lines += [f"{result.model} {row.variant}: {row.reason}" for row in result.rows if row.reason]
        lines += [f"{result.model} {name}: not made: {why}" for name, why in result.missing.items()]
        lines += [f"{result.model}: note: {note}" for note in result.notes]
        lines += [
            f"{result.model} {one.form} beside {one.shipped}, {one.output}: differs by {one.rms:.2g} (RMS, relative), "
            f"at most {one.largest:.2g}"
            for one in result.twins
        ]
    return "\n".join([*lines, "", *summarise(results)])


def find_int8_instructions() -> tuple[str, ...]:
    """Those of this processor that multiply 8-bit integers and add up, as Linux names them."""
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ()
    return tuple(one for one in INSTRUCTIONS if one in words)


def summarise(results: Sequence[Result]) -> list[str]:
    """How the goals were met, in sentences."""
    rows = [(result.model, row) for result in results for row in result.rows]
    released = [(model, row) for model, row in rows if row.is_released]
    int8 = [(model, row) for model, row in released if row.precision in INT8]
    twice = [name for name in int8 if (name[1].inference_ratio or 0) >= TWICE]
    untrue = [name for name in released if _is_untrue(name[1])]
    worst = max((row.drop for _, row in released if row.drop is not None), default=0.0)
    processors = {f"{one.machine}: {', '.join(one.int8_instructions) or 'none'}" for one in results if one.machine}
    return [
        f"instructions for INT8: {'; '.join(sorted(processors)) or '-'}",
        f"{len(released)} of {len(rows)} variants of {len(results)} models released; the largest drop is {worst:.4f}",
        f"INT8 by itself at least {TWICE:g} x as fast as its own fp32: {len(twice)} of {len(int8)} released"
        + "".join(f"; {model} {row.variant} {row.inference_ratio or 0:.2f} x" for model, row in int8),
        f'released as "faster" while slower by itself: {", ".join(f"{m} {r.variant}" for m, r in untrue) or "none"}',
        f"builds that failed: {', '.join(result.model for result in results if result.failed) or 'none'}",
    ]


def _is_untrue(row: Row) -> bool:
    return "faster" in row.gains and row.inference_ratio is not None and row.inference_ratio < 1.0


def _is_other(one: VariantResult, full: Mapping[str, VariantResult]) -> bool:
    return one.format in full and one.name not in FULL_PRECISION


def _compare_answers(one: VariantResult, full: VariantResult) -> float | None:
    mine, theirs = _find_speed(one), _find_speed(full)
    return theirs.p50_ms / mine.p50_ms if mine and theirs else None


def _find_speed(one: VariantResult) -> Speed | None:
    engine = USUAL_ENGINES.get(one.format)
    return next((s for s in one.speeds if (s.engine, s.threads, s.precision) == (engine, 1, "exact")), None)


def _write_row(result: Result, row: Row) -> str:
    interval = f"{row.interval.low:.4f}-{row.interval.high:.4f}" if row.interval else "-"
    released = "yes" if row.is_released else "no"
    if row.is_released and row.gains:
        released = "+".join(row.gains)
    numbers = (row.size_ratio, row.answer_ratio, row.inference_ratio)
    return _line(
        (
            result.model,
            row.variant,
            _write(result.original, 4),
            _write(row.value, 4),
            interval,
            _write(row.drop, 4),
            *(_write(number, 2) for number in numbers),
            released,
        )
    )


def _write(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _line(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
