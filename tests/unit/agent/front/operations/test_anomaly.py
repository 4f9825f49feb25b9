"""Is an item anomalous from the threshold on, by the model's score or by what an autoencoder can't give back?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.anomaly import AnomalySame, ReadAnomaly, describe_anomaly
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.tables import FeedTable
from shoal_agent.front.operations.values import Answer, Outputs, Table

SAME = AnomalySame(minimum_score=0.6)
FED = FeedTable(input="in", columns=3).apply(Table(values=np.array([[1.0, 2.0, 3.0]])))


def read(array: Any, *, context: object = None, **parameters: Any) -> Answer:
    outputs = Outputs(calls=[{"out": np.asarray(array, dtype=np.float32)}], context=context)
    return ReadAnomaly(output="out", **parameters).apply(outputs)


def answer(score: float, *, threshold: float = 1.0) -> Answer:
    return {"score": score, "threshold": threshold, "is_anomalous": score >= threshold}


@pytest.mark.parametrize(("value", "is_anomalous"), [(0.25, False), (0.5, True), (0.75, True)])
def test_an_item_is_anomalous_from_the_threshold_on(value: float, is_anomalous: bool) -> None:
    assert read([[value]], threshold=0.5) == {"score": value, "is_anomalous": is_anomalous, "threshold": 0.5}


def test_a_decision_function_is_turned_round() -> None:
    assert read([[-0.25]], threshold=0.0, is_negated=True) == {"score": 0.25, "is_anomalous": True, "threshold": 0.0}
    assert read([[0.25]], threshold=0.0, is_negated=True)["is_anomalous"] is False


def test_an_autoencoder_is_judged_by_the_mean_squared_difference() -> None:
    found = read([[1.0, 4.0, 2.0]], context=FED.context, input="in", threshold=1.5)
    assert found == {"score": pytest.approx((0 + 4 + 1) / 3), "is_anomalous": True, "threshold": 1.5}


@pytest.mark.parametrize(
    ("array", "parameters", "said"),
    [
        ([[1.0, 2.0]], {}, "2 values, expected 1"),
        ([[1.0, 2.0]], {"input": "in"}, r"shape \[1, 2\], expected that of the input 'in', \[1, 3\]"),
        ([[np.nan]], {}, "not finite"),
    ],
)
def test_refuses_outputs_that_are_no_score(array: Any, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        read(array, context=FED.context, threshold=1.0, **parameters)


@pytest.mark.parametrize(("context", "name"), [(None, "in"), (FED.context, "other")])
def test_refuses_a_pre_processing_that_does_not_keep_the_input(context: object, name: str) -> None:
    with pytest.raises(BadPipeline, match=f"pre-processing keeps no input '{name}'"):
        read([[1.0, 2.0, 3.0]], context=context, input=name, threshold=1.0)


def test_refuses_an_error_that_is_turned_round() -> None:
    with pytest.raises(ValueError, match="is_negated"):
        ReadAnomaly(output="out", input="in", is_negated=True, threshold=1.0)


@pytest.mark.parametrize(
    ("found", "expected", "score", "passed"),
    [
        (answer(2.0), True, 2 / 3, True),
        (answer(0.5), False, 2 / 3, True),
        (answer(1.1), True, (1 + 0.1 / 2.1) / 2, False),
        (answer(2.0), False, 1 / 3, False),
        (answer(0.5), True, 1 / 3, False),
        (answer(1.0), True, 0.5, False),
        (answer(0.0, threshold=0.0), True, 0.5, False),
        (answer(-0.3, threshold=0.0), False, 1.0, True),
    ],
)
def test_the_score_grows_with_the_distance_from_the_threshold(
    found: Answer, expected: bool, score: float, passed: bool
) -> None:
    verdict = SAME.compare(found, expected={"is_anomalous": expected})
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is passed


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.booleans())
def test_right_answers_score_at_least_half_and_wrong_ones_at_most(score: float, threshold: float, wanted: bool) -> None:
    found = answer(score, threshold=threshold)
    verdict = AnomalySame().compare(found, expected={"is_anomalous": wanted})
    assert verdict.passed is (found["is_anomalous"] is wanted)
    assert (0.5 <= verdict.score <= 1) if verdict.passed else (0 <= verdict.score <= 0.5)


def test_verdict_and_answer_are_put_in_words() -> None:
    assert describe_anomaly(answer(2.0)) == "anomalous (2, anomalous from 1 on)"
    assert SAME.compare(answer(0.5), expected={"is_anomalous": True}).words == (
        "usual (0.5, anomalous from 1 on), anomalous expected; score 0.333, at least 0.6 wanted"
    )


@pytest.mark.parametrize("expected", [{}, {"is_anomalous": 1}, None])
def test_refuses_an_expected_answer_that_does_not_say(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"anomaly\.same"):
        SAME.compare(answer(1.0), expected=expected)
