"""Are scores those of the formulas, and does the right label come first?"""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.scores import ClassesFirst, ReadScores, TopClasses, describe_classes
from shoal_agent.front.operations.values import Answer, Outputs, Scores

LABELS = ("cat", "dog", "owl")
FIRST = ClassesFirst(minimum_score=0.5)
Logits = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=6)


def read(*calls: object, activation: str = "none", is_binary: bool = False) -> list[float]:
    step = msgspec.convert({"output": "out", "activation": activation, "is_binary": is_binary}, type=ReadScores)
    outputs = [{"out": np.asarray(call, np.float32)} for call in calls]
    values: list[float] = step.apply(Outputs(calls=outputs, context=None)).values.tolist()
    return values


def top(*scores: float, labels: tuple[str, ...] = LABELS, count: int = 5) -> Answer:
    return TopClasses(labels=labels, count=count).apply(Scores(values=np.array(scores)))


@given(Logits)
def test_a_softmax_sums_to_1_and_keeps_the_order(logits: list[float]) -> None:
    scores = read([logits], activation="softmax")
    assert math.fsum(scores) == pytest.approx(1)
    assert all(scores[i] <= scores[j] for i in range(len(logits)) for j in range(len(logits)) if logits[i] < logits[j])


def test_a_softmax_by_hand() -> None:
    assert read([[math.log(1), math.log(2), math.log(5)]], activation="softmax") == pytest.approx([0.125, 0.25, 0.625])


@given(Logits)
def test_a_sigmoid_is_the_logistic_of_each(logits: list[float]) -> None:
    expected = [0.0 if x < -700 else 1 / (1 + math.exp(-x)) for x in logits]
    assert read([logits], activation="sigmoid") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 3, 1, 1), (1, 1, 3)])
def test_classes_may_be_in_any_dimension(shape: tuple[int, ...]) -> None:
    assert read(np.array([0, 0.25, 0.75]).reshape(shape)) == [0, 0.25, 0.75]


def test_several_inferences_count_the_same_each() -> None:
    """One is sure of the first class, the other sees the second at 3 to 1: logits of any size don't outweigh it."""
    scores = read([[500.0, 0.0]], [[0.0, math.log(3)]], activation="softmax")
    assert scores == pytest.approx([(1 + 0.25) / 2, (0 + 0.75) / 2])


def test_a_binary_model_gives_two_scores() -> None:
    assert read([[0.25]], is_binary=True) == [0.75, 0.25]
    assert read([[0.0]], activation="sigmoid", is_binary=True) == [0.5, 0.5]


def test_scores_that_rounding_put_a_little_outside_are_held_to_the_range() -> None:
    assert read([[-0.004, 1.004]]) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], "outputs of 0 inferences, expected 1 or more"),
        ([{"other": np.zeros((1, 3), np.float32)}], "'out' is missing"),
        ([{"out": np.zeros((2, 3), np.float32)}], r"shape \[2, 3\], expected 1 to 65536 values in one dimension"),
        ([{"out": np.zeros((1, 0), np.float32)}], r"shape \[1, 0\]"),
        ([{"out": np.zeros((1, 65_537), np.float32)}], r"shape \[1, 65537\]"),
        ([{"out": np.array([[0, np.nan]], np.float32)}], "not finite"),
        ([{"out": np.array([[0, np.inf]], np.float32)}], "not finite"),
        ([{"out": np.array([[-3.5, 8.0]], np.float32)}], r"values from -3.5 to 8, expected scores in \[0, 1\]; logits"),
        ([{"out": np.zeros((1, 2), np.float32)}, {"out": np.zeros((1, 3), np.float32)}], r"\[2, 3\] values in diff"),
    ],
)
def test_refuses_outputs_that_do_not_fit(calls: list[dict[str, object]], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        ReadScores(output="out", activation="none").apply(Outputs(calls=calls, context=None))  # type: ignore[arg-type]


def test_refuses_several_values_of_a_binary_model() -> None:
    with pytest.raises(BadOutput, match="2 values, expected 1 of a binary model"):
        read([[0.0, 1.0]], is_binary=True)
    with pytest.raises(msgspec.ValidationError, match="softmax of one value is always 1"):
        read([[0.0]], activation="softmax", is_binary=True)


def test_the_best_come_first_and_of_equal_ones_the_first() -> None:
    assert top(0.2, 0.5, 0.3, count=2) == {"classes": [{"label": "dog", "score": 0.5}, {"label": "owl", "score": 0.3}]}
    assert [one["label"] for one in top(0.4, 0.2, 0.4)["classes"]] == ["cat", "owl", "dog"]


def test_refuses_another_number_of_scores_than_labels() -> None:
    with pytest.raises(BadOutput, match="2 scores, expected 3"):
        top(0.5, 0.5)


@pytest.mark.parametrize(
    ("answer", "score", "passed", "words"),
    [
        (top(0.7, 0.2, 0.1), 0.7, True, "'cat' is first with 0.700, at least 0.5 wanted"),
        (top(0.4, 0.3, 0.3), 0.4, False, "'cat' is first with 0.400, at least 0.5 wanted"),
        (top(0.3, 0.6, 0.1), 0.0, False, "'dog' is first (0.600), 'cat' expected"),
    ],
)
def test_the_expected_class_must_be_first_and_likely(answer: Answer, score: float, passed: bool, words: str) -> None:
    verdict = FIRST.compare(answer, expected={"label": "cat"})
    assert (verdict.score, verdict.passed, verdict.words) == (score, passed, words)


def test_another_class_never_passes() -> None:
    assert not ClassesFirst(minimum_score=0.0).compare(top(0.0, 1.0, 0.0), expected={"label": "cat"}).passed


@pytest.mark.parametrize("expected", [{}, {"label": 3}, {"label": "x" * 201}, ["cat"], None])
def test_refuses_an_expected_answer_without_a_label(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"classes\.first: "):
        FIRST.compare(top(1.0, 0.0, 0.0), expected=expected)


def test_answers_are_put_in_words() -> None:
    answer = top(0.1, 0.6, 0.25, 0.05, labels=("a", "b", "c", "d"))
    assert describe_classes(answer) == "b 0.60, c 0.25, a 0.10"
