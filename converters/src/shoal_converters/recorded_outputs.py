"""Which outputs of a golden case does a release record, and how far may those of another engine lie off?

Of the runs by correct engines one, which computes exactly, is recorded. The others, of all engines, precisions and
variants that compute the same, say how far rounding alone moves outputs.
"""

import io
import math
import platform
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.lib import format as npy
from numpy.typing import NDArray
from shoal_agent.front.operations.values import Tensors
from shoal_agent.front.reference_outputs import relative_difference
from shoal_wire.encoding import Identifier
from shoal_wire.manifest import Model, ReferenceOutputs

from shoal_converters.errors import BuildFailed
from shoal_converters.spread import Judged

ROLE = "outputs"
"""Of the files, in a release."""
MARGINS: Mapping[str, float] = {"exact": 3.0, "fast": 1.1}
"""By a run's precision: times the largest difference that was seen, for engines and processors that were not. Exact
runs differ by rounding, of which there is little. A fast one may compute in bfloat16 (OpenVINO does on a processor with
AMX) and be off by 0.15 of the size: three times that would hide four of a network's largest weights with their signs
turned, which moved an output by 0.19. Where another processor's is further off, that board computes exactly."""
LEAST_DIFFERENCE = 2e-3
"""Engines that agree here say little of one that isn't here. Measured with a network that takes logarithms: some agree
within 1.2e-4, from which tflite-runtime 2.14 differs by 4.3e-4. One of this network's largest weights with its sign
turned moves an output by 1.2e-2 and more."""
LEAST_QUANTIZED_DIFFERENCE = 0.05
"""Where weights or activations are quantized. The same kernels on one processor agree to the last bit; another one may
round a value to the next of 256 steps. Over a range of eight standard deviations a step is 0.03 of one."""
GREATEST_DIFFERENCE = 0.5
"""Outputs that lie further off than that are hardly the same computation."""
MAX_RECORDED_BYTES = 1 << 23
"""Of one golden case. Larger outputs, the last ones first, aren't recorded: every board would have to fetch them."""
MAX_SOURCE = 4000
"""Characters; see `shoal_wire.encoding.Text`."""
_EPOCH = (1980, 1, 1, 0, 0, 0)

Arrays = Mapping[tuple[int, str], NDArray[Any]]
"""By number of the call and name of the output."""
_Arrays = dict[tuple[int, str], NDArray[Any]]


class OutputsDiffer(BuildFailed):
    """Engines answer a case rightly, each from other outputs: there is nothing to record for it."""


class _Compared(NamedTuple):
    """The run that is recorded, what is recorded of it, and the largest difference of each of the others."""

    exact: Judged
    recorded: Arrays
    differences: list[tuple[Judged, float]]


class Recorded(NamedTuple):
    """What a golden case says of its outputs, and the file that it names."""

    outputs: ReferenceOutputs
    content: bytes


def add_reference_outputs(
    model: Model, judged: Sequence[Judged], *, same: Sequence[Sequence[str]]
) -> tuple[Model, dict[str, bytes]]:
    """The model with recorded outputs in each golden case, and the contents of the files that hold them.

    `judged` are runs of which outputs were kept (`judge_golden_cases`). `same` are groups of variants that compute the
    same up to rounding: the forms of one network in float, or those of one that was quantized.

    Raises:
        BuildFailed: see `record_outputs`.
    """
    cases, contents = [], {}
    for place, case in enumerate(model.golden):
        references = []
        for number, variants in enumerate(same):
            file = f"outputs-{place + 1}-{number + 1}.npz"
            recorded = record_outputs(model, judged, case=place, variants=variants, file=file)
            if recorded is not None:
                references.append(recorded.outputs)
                contents[file] = recorded.content
        cases.append(replace(case, outputs=tuple(references)))
    return replace(model, golden=tuple(cases)), contents


def record_outputs(
    model: Model, judged: Sequence[Judged], *, case: int, variants: Sequence[str], file: Identifier
) -> Recorded | None:
    """The recorded outputs of golden case number `case` for `variants`; see `add_reference_outputs`.

    Runs of other variants and those that answered wrongly don't count. The first exact run is recorded. None where its
    outputs are larger than a release should hold.

    Raises:
        BuildFailed: no exact run answers rightly, outputs aren't finite numbers, or those of two runs have other
            shapes.
        OutputsDiffer: those of two runs differ by more than GREATEST_DIFFERENCE.
    """
    exact, recorded, others = _compare_runs(model, judged, case=case, variants=variants)
    if not recorded:
        return None
    differences = {run.words: difference for run, difference in others}
    farthest = max(differences, key=lambda words: differences[words], default="")
    largest = differences.get(farthest, 0.0)
    if largest > GREATEST_DIFFERENCE:
        raise OutputsDiffer(
            f"golden case {model.golden[case].name}: outputs of {farthest} differ from those of {exact.words} by "
            f"{largest:.3g} of their size, expected at most {GREATEST_DIFFERENCE:g}"
        )
    least = _choose_least(model, variants)
    margins = {run.words: MARGINS[run.candidate.precision] for run, _ in others}
    widened = max((margins[words] * difference for words, difference in differences.items()), default=0.0)
    allowed = _round_up(min(max(widened, least), GREATEST_DIFFERENCE))
    outputs = ReferenceOutputs(
        variants=tuple(variants),
        file=file,
        maximum_difference=allowed,
        source=_describe_source(allowed, exact=exact, differences=differences, margins=margins, least=least)[
            :MAX_SOURCE
        ],
    )
    return Recorded(outputs, write_npz(recorded))


def list_strays(model: Model, judged: Sequence[Judged], *, case: int, variants: Sequence[str]) -> list[Judged]:
    """Runs whose outputs lie further off than GREATEST_DIFFERENCE, though they answer rightly; see `record_outputs`.

    Raises:
        BuildFailed: as there.
    """
    compared = _compare_runs(model, judged, case=case, variants=variants)
    return [run for run, difference in compared.differences if difference > GREATEST_DIFFERENCE]


def write_npz(arrays: Arrays) -> bytes:
    """A NumPy .npz of float32 arrays `<call>/<output>`. Equal arrays give equal bytes: no times, no compression."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for (call, output), array in sorted(arrays.items(), key=lambda item: item[0]):
            member = io.BytesIO()
            npy.write_array(member, np.ascontiguousarray(array, "<f4"), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{call}/{output}.npy", _EPOCH), member.getvalue())
    return file.getvalue()


def _compare_runs(model: Model, judged: Sequence[Judged], *, case: int, variants: Sequence[str]) -> _Compared:
    what = f"golden case {model.golden[case].name}"
    runs = [one for one in judged if one.candidate.variant in variants and one.verdicts[case].passed]
    exact = next((one for one in runs if one.candidate.precision == "exact"), None)
    if exact is None:
        raise BuildFailed(f"{what}: no exact run of {sorted(variants)} answers rightly")
    others = [one for one in runs if one is not exact]
    recorded = _choose_arrays(model, exact.outputs[case], others=[one.outputs[case] for one in others])
    _differ(exact.outputs[case], recorded, what=f"{what}: {exact.words}")  # finite numbers?
    differences = [(one, _differ(one.outputs[case], recorded, what=f"{what}: {one.words}")) for one in others]
    return _Compared(exact, recorded, differences)


def _choose_arrays(model: Model, calls: Sequence[Tensors], *, others: Sequence[Sequence[Tensors]]) -> _Arrays:
    """Outputs of the model's signature that every run gave, by call and name, as long as there is room for them."""
    chosen: _Arrays = {}
    left = MAX_RECORDED_BYTES
    for number, outputs in enumerate(calls):
        for name in sorted(tensor.name for tensor in model.outputs):
            if name not in outputs or any(len(one) <= number or name not in one[number] for one in others):
                continue
            left -= 4 * outputs[name].size
            if left < 0:
                return chosen
            chosen[number, name] = outputs[name]
    return chosen


def _differ(calls: Sequence[Tensors], recorded: Arrays, *, what: str) -> float:
    """The largest difference of any array."""
    largest = 0.0
    for (number, name), array in recorded.items():
        found = calls[number][name]
        if found.shape != array.shape:
            raise BuildFailed(
                f"{what}: output {name!r} has the shape {list(found.shape)}, elsewhere {list(array.shape)}"
            )
        difference = relative_difference(found, array)
        if not math.isfinite(difference):
            raise BuildFailed(f"{what}: output {name!r} holds what isn't a finite number")
        largest = max(largest, difference)
    return largest


def _choose_least(model: Model, variants: Sequence[str]) -> float:
    is_quantized = any("int" in one.precision for one in model.variants if one.name in variants)
    return LEAST_QUANTIZED_DIFFERENCE if is_quantized else LEAST_DIFFERENCE


def _describe_source(
    allowed: float, *, exact: Judged, differences: Mapping[str, float], margins: Mapping[str, float], least: float
) -> str:
    if not differences:
        return f"Recorded of {exact.words}, the only run. Allowed {allowed:g}."
    farthest = max(differences, key=lambda words: margins[words] * differences[words])
    return (
        f"Recorded of {exact.words}. Allowed {allowed:g}: the largest difference of {len(differences)} other runs by "
        f"correct engines on {platform.machine()}, {differences[farthest]:.2g} ({farthest}), times "
        f"{margins[farthest]:g}, at least {least:g} and at most {GREATEST_DIFFERENCE:g}. "
        f"Runs: {', '.join(differences)}."
    )


def _round_up(value: float) -> float:
    """To two digits, so that a manifest reads well."""
    rounded = float(f"{value:.1e}")
    return rounded if rounded >= value else float(f"{value * 1.05:.1e}")
