"""Is what a model makes of a golden case right: its answer, and its outputs where they were recorded?"""

from collections.abc import Callable, Iterable, Sequence

from shoal_wire.manifest import GoldenCase

from shoal_agent.front.operations.pipeline import compare
from shoal_agent.front.operations.values import Answer, Tensors, Verdict
from shoal_agent.front.reference_outputs import compare_outputs, read_reference

EXACT = "exact"
FASTER_DIFFERENCE = 0.1
"""Of outputs, allowed at least where an engine computes in shorter types on purpose: bfloat16 rounds each value by up
to 2**-9, and layers add to that. A publisher's machine may have had no such types; the answer must be right anyhow."""


def judge_case(
    case: GoldenCase,
    *,
    answer: Answer,
    outputs: Sequence[Tensors],
    variant: str,
    precision: str,
    read: Callable[[str], Iterable[bytes]],
) -> Verdict:
    """Judge what a variant made of a case, in an engine that computed in that precision.

    `read` gives the bytes of a file of the release, in chunks.

    The score is that of the answer.

    Raises:
        BadPipeline: the comparison or the recorded outputs can't be used.
        Whatever `read` raises.
    """
    verdict = compare(case.comparison, answer=answer, expected=case.expected)
    reference = case.reference_of(variant)
    if reference is None or not verdict.passed:
        return verdict
    recorded = read_reference(read(reference.file), what=reference.file)
    allowed = reference.maximum_difference
    if precision != EXACT:
        allowed = max(allowed, FASTER_DIFFERENCE)
    found = compare_outputs(outputs, recorded, maximum_difference=allowed)
    return Verdict(passed=found.passed, score=verdict.score, words=f"{verdict.words}; {found.words}")
