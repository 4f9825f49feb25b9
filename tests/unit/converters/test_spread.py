"""Does a golden case ask for less than the worst of the correct engines gave, and say where that comes from?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.values import Verdict
from shoal_converters.errors import BuildFailed
from shoal_converters.spread import Judged, choose_tolerance
from shoal_wire.tuning import Candidate


def judged(*scores: float) -> list[Judged]:
    """One case, judged by as many engines."""
    return [
        Judged(
            candidate=Candidate(variant="onnx-fp32", engine=f"engine-{number}", precision="fast", threads=1),
            version="1.2",
            verdicts=(Verdict(passed=True, score=score, words=""),),
            outputs=((),),
        )
        for number, score in enumerate(scores)
    ]


def test_the_minimum_lies_a_margin_below_the_lowest_score() -> None:
    tolerance = choose_tolerance(judged(1.0, 0.95), case=0, margin=0.1, score="F1", least=0.5)
    assert tolerance.minimum == 0.85
    assert tolerance.source.startswith("Minimum 0.85: lowest F1 of 2 runs by correct engines on ")
    assert "0.950 (highest 1.000), less a margin of 0.1" in tolerance.source
    assert "onnx-fp32 in engine-0 1.2 (fast), onnx-fp32 in engine-1 1.2 (fast)" in tolerance.source


@given(st.lists(st.floats(0.6, 1.0), min_size=1, max_size=8))
def test_the_minimum_never_lies_higher_and_hardly_lower(scores: list[float]) -> None:
    minimum = choose_tolerance(judged(*scores), case=0, margin=0.1, score="F1", least=0.0).minimum
    assert min(scores) - 0.1 - 0.01 < minimum <= min(scores) - 0.1 + 1e-9


def test_a_case_that_would_tell_nothing_is_refused() -> None:
    with pytest.raises(BuildFailed, match=r"golden case 1: lowest F1 0\.550, expected 0\.6"):
        choose_tolerance(judged(1.0, 0.55), case=0, margin=0.1, score="F1", least=0.5)
