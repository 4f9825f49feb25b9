"""Do conversions in full precision compute what the source does in its own framework? Asked where no engine runs it.

Both answer the same calls. Rounding makes them differ: a sum of n products in float32 is off by about sqrt(n) x 6e-8 of
its size (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019), so that a hundred layers with
sums of ten thousand products may come to 6e-4; three times that is allowed. A conversion that got an operator wrong
differs by hundredths or more.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.values import Tensors
from shoal_wire.manifest import Tensor
from shoal_worker.errors import WorkerError

from shoal_converters.building.job import Job, Tell
from shoal_converters.building.original import list_full
from shoal_converters.building.workshop import Workshop
from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.evaluation import USUAL_ENGINES, open_form
from shoal_converters.forms import Form, Signature
from shoal_converters.quantization.calibration import choose_calls, spread
from shoal_converters.report.results import SourceComparison, SourceDifference

ITEMS = 16
CALLS_OF_ITEM = 2
LEAST_SIZE = 1e-3
"""Outputs that are smaller are compared as if they were of this size: they may be what is left where large numbers
cancel out, such as probabilities near 0."""


class Gap(NamedTuple):
    """Of the output that differs most."""

    output: str
    difference: float
    """Root mean square over a call, of the largest such, relative to that of the source's outputs over all calls.

    Of outputs that are whole numbers: the share of values that are others. Infinite where shapes differ or one side has
    values that aren't finite.
    """


def check_source(job: Job, workshop: Workshop, *, tell: Tell) -> SourceComparison | None:
    """Compare all forms in full precision, and discard those that compute something else.

    Whatever is missing then is made in another way where there is one, and compared as well. None where the source is
    judged itself, or where nothing can be said, which a note of the workshop then tells.

    Raises:
        BadModel: all conversions compute something else; the message has by how much.
        ToolMissing: see `list_full`.
    """
    if job.source.format in USUAL_ENGINES:
        return None
    forms = list_full(workshop)
    try:
        calls = _choose_calls(job, forms[0], workshop.signature)
        tell(f"source: answering {len(calls)} calls in its own framework")
        answered = workshop.answer_source(calls)
    except (ToolMissing, PathFailed, OperationError, WorkerError) as error:
        workshop.notes.append(f"Conversions weren't compared with the source in its own framework: {error}.")
        return None
    allowed = job.recipe.budget.max_source_difference
    differences: list[SourceDifference] = []
    compared: list[Form] = []
    while left := [form for form in forms if not any(form is one for one in compared)]:
        compared += left
        for form in left:
            gap = _compare(form, calls, answered.outputs, signature=workshop.signature)
            if gap is None:
                continue  # its engine refuses it: whoever judges it says why
            differences.append(SourceDifference(variant=form.name, output=gap.output, difference=gap.difference))
            if gap.difference > allowed:
                workshop.discard(form.name, _describe(form, gap, framework=answered.framework, allowed=allowed))
        workshop.make(job.wanted.names)
        forms = list_full(workshop)
    return SourceComparison(
        framework=answered.framework,
        items=min(ITEMS, len(job.evaluation)),
        calls=len(calls),
        allowed=allowed,
        differences=tuple(differences),
    )


def find_gap(outputs: Sequence[Tensor], expected: Sequence[Tensors], found: Sequence[Tensors]) -> Gap:
    """How far the outputs of calls lie apart. Whole numbers count only where a model has no others."""
    floats = [one.name for one in outputs if np.dtype(one.dtype).kind == "f"]
    gaps = [
        Gap(name, _differ([call[name] for call in expected], [call[name] for call in found]))
        for name in floats or [one.name for one in outputs]
    ]
    return max(gaps, key=lambda gap: gap.difference)


def _choose_calls(job: Job, form: Form, signature: Signature) -> list[Tensors]:
    with open_form(form, signature=signature) as running:
        return [
            call
            for item in spread(job.evaluation, ITEMS)
            for call in choose_calls(item, pipeline=job.pipeline, most=CALLS_OF_ITEM, run=running.run)
        ]


def _compare(form: Form, calls: Sequence[Tensors], expected: Sequence[Tensors], *, signature: Signature) -> Gap | None:
    try:
        with open_form(form, signature=signature) as running:
            # An engine may use the memory of its outputs again.
            found = [{name: array.copy() for name, array in running.run(call).items()} for call in calls]
    except (ToolMissing, WorkerError):
        return None
    return find_gap(signature.outputs, expected, found)


def _differ(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    if any(one.shape != other.shape for one, other in zip(expected, found, strict=True)):
        return math.inf
    if expected[0].dtype.kind != "f":
        unequal = sum(int(np.count_nonzero(one != other)) for one, other in zip(expected, found, strict=True))
        return unequal / max(1, sum(one.size for one in expected))
    pairs = [(one.astype(np.float64), other.astype(np.float64)) for one, other in zip(expected, found, strict=True)]
    if not all(np.isfinite(one).all() and np.isfinite(other).all() for one, other in pairs):
        return math.inf
    size = _root_mean_square(np.concatenate([one.ravel() for one, _ in pairs]))
    return max(_root_mean_square(other - one) for one, other in pairs) / max(size, LEAST_SIZE)


def _root_mean_square(values: np.ndarray) -> float:
    return math.sqrt(float(np.square(values).mean())) if values.size else 0.0


def _describe(form: Form, gap: Gap, *, framework: str, allowed: float) -> str:
    return (
        f"{form.name} ({form.how}): its output {gap.output!r} differs from the source's in {framework} by "
        f"{gap.difference:.2g} of its size, allowed {allowed:g}: the conversion computes something else, or the model "
        "makes rounding large; convert it from another format, or, if its accuracy holds all the same, raise "
        "budget.max_source_difference in the recipe"
    )
