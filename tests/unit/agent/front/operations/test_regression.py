"""Does an output become named quantities, and is their distance from the measured ones judged?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.regression import ReadValues, ValuesNear, describe_values
from shoal_agent.front.operations.values import Outputs

NEAR = ValuesNear(scale=2.0, minimum_score=0.6)


def read(array: Any, **changed: Any) -> dict[str, float]:
    step = ReadValues(output="out", names=("temperature_c", "humidity"), **changed)
    values: dict[str, float] = step.apply(Outputs(calls=[{"out": np.asarray(array, dtype=np.float32)}], context=None))[
        "values"
    ]
    return values


def test_values_have_names_in_their_order() -> None:
    assert read([[1.5, -2.0]]) == {"temperature_c": 1.5, "humidity": -2.0}
    assert list(read([1.0, 2.0])) == ["temperature_c", "humidity"]


def test_each_value_has_its_own_scale_and_offset() -> None:
    assert read([[1.5, -2.0]], scale=(10.0, 0.5), offset=(20.0, 1.0)) == {"temperature_c": 35.0, "humidity": 0.0}


@pytest.mark.parametrize(
    ("array", "changed", "said"),
    [
        ([[1.0, 2.0, 3.0]], {}, "3 values, expected 2"),
        ([[1.0, math.inf]], {}, "not finite"),
    ],
)
def test_refuses_outputs_of_other_values(array: Any, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        read(array, **changed)


def test_refuses_a_value_that_cannot_be_scaled() -> None:
    step = ReadValues(output="out", names=("a",), scale=(1e30,))
    with pytest.raises(BadOutput, match="too large"):
        step.apply(Outputs(calls=[{"out": np.array([1e300])}], context=None))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"names": ("a", "a")}, "given twice"),
        ({"names": ("a", "b"), "scale": (1.0,)}, "scale has 1 values, expected one for each of 2"),
        ({"names": ("a",), "offset": (1.0, 2.0)}, "offset has 2 values"),
    ],
)
def test_refuses_parameters_that_contradict_one_another(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ReadValues(output="out", **parameters)


@pytest.mark.parametrize(
    ("found", "score"),
    [
        ({"a": 10.0, "b": 20.0}, 1.0),
        ({"a": 11.0, "b": 20.0}, 0.75),
        ({"a": 9.5, "b": 21.0}, (0.75 + 0.5) / 2),
        ({"a": 10.0, "b": 99.0}, 0.5),
        ({"a": 10.0}, 0.5),
        ({"a": 10.0, "b": 20.0, "c": 0.0}, 1.0),
    ],
)
def test_the_score_falls_with_the_distance(found: dict[str, float], score: float) -> None:
    verdict = NEAR.compare({"values": found}, expected={"values": {"a": 10.0, "b": 20.0}})
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.6)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=10), st.floats(0.01, 1e3))
def test_the_score_is_always_a_share(pairs: list[tuple[float, float]], scale: float) -> None:
    known = {str(at): pair[0] for at, pair in enumerate(pairs)}
    found = {str(at): pair[1] for at, pair in enumerate(pairs)}
    near = ValuesNear(scale=scale, minimum_score=0.0)
    score = near.compare({"values": found}, expected={"values": known}).score
    assert 0 <= score <= 1
    assert near.compare({"values": known}, expected={"values": known}).score == 1
    assert score == pytest.approx(near.compare({"values": known}, expected={"values": found}).score)


def test_verdict_and_answer_are_put_in_words() -> None:
    assert NEAR.compare({"values": {"a": 11.0}}, expected={"values": {"a": 10.0}}).words == (
        "score 0.500, at least 0.6 wanted; farthest off is a: 11, 10 expected"
    )
    assert NEAR.compare({"values": {"b": 1.0}}, expected={"values": {"a": 10.0}}).words.endswith(
        "farthest off is a: missing, 10 expected"
    )
    assert describe_values({"values": {"temperature_c": 21.4321, "humidity": 0.61}}) == (
        "temperature_c 21.43, humidity 0.61"
    )
    assert describe_values({"values": {str(at): 1.0 for at in range(9)}}).endswith(" …")


@pytest.mark.parametrize("expected", [{}, {"values": {}}, {"values": {"a": "1"}}, {"values": [1.0]}, None])
def test_refuses_an_expected_answer_without_values(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"values\.near: expected answer"):
        NEAR.compare({"values": {"a": 1.0}}, expected=expected)
