"""Which variants does no other beat, and can their labels be told apart?"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.report.pareto import Point, dominates, draw_pareto, list_points, pareto_set

from tests.unit.converters.report.report_example import report, speed, variant

points = st.lists(
    st.builds(
        Point,
        name=st.just("v"),
        kind=st.just("onnx"),
        value=st.integers(0, 4).map(float),
        p50_ms=st.integers(1, 4).map(float),
        size_bytes=st.integers(1, 4),
        is_released=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def point(name: str, value: float, p50_ms: float, size_bytes: int) -> Point:
    return Point(name, "onnx", value, p50_ms, size_bytes, True)


def test_what_another_beats_in_one_figure_and_equals_in_the_rest_is_left_out() -> None:
    best = [point("accurate", 0.9, 10, 10), point("fast", 0.8, 1, 10), point("small", 0.8, 10, 1)]
    beaten = [point("worse", 0.89, 10, 10), point("slower", 0.8, 2, 10), point("larger", 0.8, 10, 2)]
    assert pareto_set([*beaten, *best]) == tuple(best)


@given(points)
def test_everybody_is_in_the_set_or_beaten_by_one_of_it(these: list[Point]) -> None:
    best = pareto_set(these)
    assert best
    for one in these:
        assert (one in best) != any(dominates(other, one) for other in best)


def test_only_variants_that_were_judged_and_timed_are_drawn() -> None:
    told = (
        variant("onnx-fp32", speeds=(speed("onnxruntime", 5.0),)),
        variant("onnx-fp16"),
        variant("coreml-fp16", drop=None, speeds=(speed("litert", 1.0),)),
        variant("onnx-int8", value=float("nan"), speeds=(speed("onnxruntime", 5.0),)),
        variant("openvino-fp32", speeds=(speed("openvino", 5.0, precision="fast"),)),
    )
    assert [one.name for one in list_points(report(variants=told))] == ["onnx-fp32"]


@pytest.mark.parametrize("max_drop", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_labels_of_equal_variants_do_not_lie_on_each_other(count: int, max_drop: float) -> None:
    told = tuple(variant(f"onnx-{number}", speeds=(speed("onnxruntime", 5.0),)) for number in range(count))
    drawn = draw_pareto(report(variants=told, max_drop=max_drop), kinds=["onnx"])
    places = re.findall(r'<text x="([\d.-]+)" y="([\d.-]+)" class="label', drawn)
    assert len(places) == len(set(places)) == count
