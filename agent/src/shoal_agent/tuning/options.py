"""What may be said to `shoal-agent tune`? Imports nothing heavy: every other command reads this too."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from shoal_wire.tuning import Objective

from shoal_agent.tuned import Limits

BUDGET_S = 60.0
BATCHES = (1, 2, 4, 8)
"""Calls of one item that are given at once, where the model can and an item has so many."""
MAX_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What to tune, for what, and for how long."""

    model: str
    state: Path
    release_folder: Path | None
    """Instead of the release that serves."""
    objective: Objective
    limits: Limits
    budget_s: float
    threads: tuple[int, ...]
    """Empty for a choice by the processors."""
    batches: tuple[int, ...]
    is_fresh: bool
    """Measure even where an earlier verdict holds."""


def add_tune_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument("model", metavar="MODEL", help="name of a model in a release that this board holds")
    parser.add_argument(
        "--objective", choices=get_args(Objective), default="latency", help="what to look for (default: %(default)s)"
    )
    parser.add_argument("--limit-p95-ms", type=_above_zero, metavar="MS", help="latency that p95 may reach")
    parser.add_argument("--limit-memory-mb", type=_above_zero, metavar="MB", help="memory that a worker may reach")
    parser.add_argument(
        "--budget-s", type=_above_zero, default=BUDGET_S, metavar="S", help="time to spend (default: %(default)g)"
    )
    parser.add_argument("--threads", type=_whole_numbers, default=(), metavar="N,N", help="(default: 1, 2, 4 … cores)")
    parser.add_argument(
        "--batch",
        type=_whole_numbers,
        default=BATCHES,
        metavar="N,N",
        help=f"calls of one item that are given at once, where the model can (default: {', '.join(map(str, BATCHES))})",
    )
    parser.add_argument(
        "--release-folder",
        type=Path,
        metavar="DIR",
        help="tune what a converter wrote, not what this board holds; what serves stays as it is",
    )
    parser.add_argument("--fresh", action="store_true", help="measure again though an earlier verdict still holds")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw latency against memory")


def parse_tune_options(options: argparse.Namespace) -> TuneOptions:
    """The options as one value."""
    memory_mb = options.limit_memory_mb
    return TuneOptions(
        model=options.model,
        state=options.state,
        release_folder=options.release_folder,
        objective=options.objective,
        limits=Limits(
            p95_ms=options.limit_p95_ms, memory_bytes=None if memory_mb is None else round(memory_mb * 1_000_000)
        ),
        budget_s=options.budget_s,
        threads=options.threads,
        batches=options.batch,
        is_fresh=options.fresh,
    )


def _above_zero(text: str) -> float:
    number = _parse(text, float)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return number


def _whole_numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(sorted({int(_parse(part, int)) for part in text.split(",")}))
    if not 1 <= numbers[0] <= numbers[-1] <= MAX_THREADS:
        raise argparse.ArgumentTypeError(f"expected whole numbers from 1 to {MAX_THREADS}, found {text!r}")
    return numbers


def _parse(text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None
