"""Which boards of a profile can run a variant, and how fast should it be there? Rules only.

A speed is predicted from a measurement on such a board or not at all. Three facts must be of the same kind for that:
the variant's name (format and precision), the engine, and the number of threads. Where the profile measured this very
model, that is the prediction. Where it measured other models that this machine measured too, this machine's speed is
scaled by how those compare. Scaling assumes that the two processors differ by the same factor for this model, which
holds less the more the models differ; so the sentence of a prediction names the models and the factors.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shoal_agent.engine_table import ELSEWHERE, ENGINES
from shoal_agent.front.admission import megabytes, predict_peak
from shoal_wire.device_profile import DeviceProfile, Engine, MeasuredSpeed

from shoal_converters.report.results import BoardVerdict, Prediction, Speed, VariantResult

ENGINE_NAMES = frozenset(engine.value for engine in Engine)


class _Scaled(NamedTuple):
    """How many times as fast the board is as this machine, for one model."""

    factor: float
    model: str


def predict_board(
    profile: DeviceProfile, variants: Sequence[VariantResult], *, model: str, here: Sequence[MeasuredSpeed] = ()
) -> tuple[Prediction, ...]:
    """Sustained rates of a model's variants on a board; none where the profile's measurements say nothing of them.

    `here`: what was measured on this machine of other models, as `list_measured` gives it.
    """
    return tuple(
        prediction
        for variant in variants
        for speed in variant.speeds
        if speed.precision == "exact"
        for prediction in _predict(profile, variant, speed, model=model, here=here)
    )


def list_measured(
    variants: Sequence[VariantResult], *, model: str, versions: dict[str, str]
) -> tuple[MeasuredSpeed, ...]:
    """The speeds of this machine as its device profile would list them. `versions`: of engines, by name."""
    return tuple(
        MeasuredSpeed(
            model=model,
            variant=variant.name,
            engine=Engine(speed.engine),
            engine_version=versions.get(speed.engine, "unknown"),
            threads=speed.threads,
            answers_per_second=speed.answers_per_s,
        )
        for variant in variants
        for speed in variant.speeds
        if speed.precision == "exact" and speed.engine in ENGINE_NAMES and speed.answers_per_s > 0
    )


def judge_board(profile: DeviceProfile, variants: Sequence[VariantResult]) -> tuple[BoardVerdict, ...]:
    """Which variants the boards of a profile can run, in which of its engines, and why not."""
    return tuple(_judge(profile, variant) for variant in variants)


def _predict(
    profile: DeviceProfile, variant: VariantResult, speed: Speed, *, model: str, here: Sequence[MeasuredSpeed]
) -> Iterator[Prediction]:
    there = [row for row in profile.measured_speeds if _is_alike(row, variant, speed)]
    own = next((row for row in there if row.model == model), None)
    if own is not None:
        rate = own.answers_per_second
        source = f"measured on this kind of board, of an earlier build of this variant, in {_engine(own)}"
    else:
        others = [row for row in here if row.model != model and _is_alike(row, variant, speed)]
        scaled = [
            _Scaled(row.answers_per_second / other.answers_per_second, row.model)
            for row in there
            for other in others
            if other.model == row.model and other.answers_per_second > 0
        ]
        if not scaled or speed.answers_per_s <= 0:
            return
        factor = math.exp(sum(math.log(one.factor) for one in scaled) / len(scaled))
        rate = speed.answers_per_s * factor
        source = (
            f"estimated: {speed.answers_per_s:.3g} answers/s on this machine x {factor:.3g}, by which this kind of "
            f"board differs from it for {variant.name} of {_list_factors(scaled)}, measured on both in {speed.engine} "
            "with as many threads; another model may differ by another factor"
        )
    yield Prediction(
        board=profile.name,
        variant=variant.name,
        engine=speed.engine,
        threads=speed.threads,
        answers_per_s=rate,
        source=source,
    )


def _is_alike(row: MeasuredSpeed, variant: VariantResult, speed: Speed) -> bool:
    is_plain = (row.precision, row.batch, row.device) == ("exact", 1, "")
    return is_plain and (row.variant, row.engine.value, row.threads) == (variant.name, speed.engine, speed.threads)


def _engine(row: MeasuredSpeed) -> str:
    return f"{row.engine.value} {row.engine_version}"


def _list_factors(scaled: Sequence[_Scaled]) -> str:
    return ", ".join(f"{one.model} ({one.factor:.3g} x)" for one in scaled)


def _judge(profile: DeviceProfile, variant: VariantResult) -> BoardVerdict:
    offered = [engine.value for engine in profile.engines]
    readers = ENGINES.get(variant.format, ())
    reading = [engine for engine in offered if engine in readers]
    right = [engine for engine in reading if not variant.runtimes or engine in variant.runtimes]
    engines: tuple[str, ...] = ()
    if variant.format in ELSEWHERE:
        words = ELSEWHERE[variant.format]
    elif not reading:
        words = (
            f"{profile.board} has the engines {', '.join(offered)}; "
            f"{variant.format} is read by {', '.join(readers) or 'no engine of the agent'}"
        )
    elif not right:
        words = f"{', '.join(reading)} reads {variant.format}, but only {', '.join(variant.runtimes)} computes it right"
    else:
        needed = _needed_bytes(variant, engines=right)
        fitting = [size for size in profile.memory_bytes if size > needed]
        if profile.memory_bytes and not fitting:
            words = (
                f"needs {megabytes(needed)} of memory; "
                f"{profile.board} has {megabytes(max(profile.memory_bytes))} at most"
            )
        else:
            engines = tuple(right)
            words = f"needs {megabytes(needed)} of memory"
            if len(fitting) < len(profile.memory_bytes):
                words += f": only boards with {megabytes(min(fitting))} or more"
    return BoardVerdict(board=profile.name, variant=variant.name, engines=engines, words=words)


def _needed_bytes(variant: VariantResult, *, engines: Sequence[str]) -> int:
    """Peak of a worker: the least that was measured here in one of these engines, or as the agent estimates it."""
    seen = [speed.memory_bytes for speed in variant.speeds if speed.engine in engines and speed.memory_bytes]
    return predict_peak(measured_bytes=min(seen, default=0), file_bytes=(variant.size_bytes,)).needed_bytes
