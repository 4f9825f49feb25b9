"""Do scores of frames become events at the right times, and are they judged by what somebody heard?"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.events import EventsF1, FindEvents, ReadFrames, describe_events
from shoal_agent.front.operations.values import Answer, FrameScores, Hearing, Outputs

F1 = EventsF1(frame_s=0.1, minimum_f1=0.7)


def outputs_of(*arrays: Any, call_s: float = 0.5, sound_s: float = 10.0) -> Outputs[Hearing]:
    calls = [{"out": np.asarray(array, dtype=np.float32)} for array in arrays]
    return Outputs(calls=calls, context=Hearing(call_s=call_s, sound_s=sound_s, fed={}))


def find(column: list[float], *, sound_s: float = 100.0, **changed: Any) -> list[tuple[float, float]]:
    """Spans of one label at frames of 0.1 s."""
    scores = FrameScores(values=np.array(column)[:, np.newaxis], frame_s=0.1, sound_s=sound_s)
    answer = FindEvents(labels=("dog",), thresholds={"dog": 0.5}, **changed).apply(scores)
    return [(event["start_s"], event["end_s"]) for event in answer["events"]]


def said(*events: tuple[str, float, float]) -> Answer:
    return {"events": [{"label": label, "start_s": start_s, "end_s": end_s} for label, start_s, end_s in events]}


def test_one_score_for_each_call_is_one_frame_for_each() -> None:
    scores = ReadFrames(output="out").apply(outputs_of([[0.25]], [[0.75]], call_s=0.032, sound_s=0.05))
    assert scores.values.tolist() == [[0.25], [0.75]]
    assert (scores.frame_s, scores.sound_s) == (0.032, 0.05)


@pytest.mark.parametrize(
    ("array", "layout", "expected"),
    [
        ([0.25, 0.5], "frames-labels", [[0.25, 0.5]]),
        ([[0.25], [0.5]], "frames-labels", [[0.25], [0.5]]),
        ([[[0.25, 0.5], [0.75, 1.0]]], "frames-labels", [[0.25, 0.5], [0.75, 1.0]]),
        ([[[0.25, 0.5], [0.75, 1.0]]], "labels-frames", [[0.25, 0.75], [0.5, 1.0]]),
        ([0.25, 0.5], "labels-frames", [[0.25, 0.5]]),
        ([[[[0.25, 0.5]]]], "labels-frames", [[0.25], [0.5]]),
        (0.25, "frames-labels", [[0.25]]),
    ],
)
def test_frames_and_labels_are_the_last_two_dimensions(array: Any, layout: Any, expected: list[list[float]]) -> None:
    scores = ReadFrames(output="out", layout=layout).apply(outputs_of(array))
    assert scores.values.tolist() == expected
    assert scores.frame_s == 0.5 / len(expected)


def test_the_frames_length_can_be_given() -> None:
    assert ReadFrames(output="out", frame_s=0.02).apply(outputs_of([[0.0], [1.0]])).frame_s == 0.02


def test_logits_become_scores() -> None:
    logits = [[0.0, np.log(3)], [-800.0, 800.0]]
    assert ReadFrames(output="out", activation="sigmoid").apply(outputs_of(logits)).values == pytest.approx(
        np.array([[0.5, 0.75], [0.0, 1.0]])
    )
    assert ReadFrames(output="out", activation="softmax").apply(outputs_of(logits)).values == pytest.approx(
        np.array([[0.25, 0.75], [0.0, 1.0]])
    )


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([], "no inference"),
        ([np.zeros((2, 3, 4))], r"shape \[2, 3, 4\], expected \[1, frames, labels\]"),
        ([np.zeros((1, 0, 4))], r"shape \[1, 0, 4\]"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], "differs from call to call"),
        ([[[np.inf]]], "not finite"),
    ],
)
def test_refuses_outputs_without_frames(arrays: list[Any], expected: str) -> None:
    with pytest.raises(BadOutput, match=expected):
        ReadFrames(output="out").apply(outputs_of(*arrays))


def test_an_event_lasts_while_its_score_is_at_or_above_the_threshold() -> None:
    assert find([0.4, 0.5, 0.9, 0.4, 0.0, 0.6]) == [(0.1, 0.3), (0.5, 0.6)]
    assert find([0.9, 0.9]) == [(0.0, 0.2)]
    assert find([0.4, 0.4]) == []


def test_gaps_are_closed_before_short_events_are_dropped() -> None:
    column = [0.9, 0.0, 0.9, 0.0, 0.0, 0.0, 0.9]
    assert find(column, gap_s=0.1, minimum_s=0.3) == [(0.0, 0.3)]
    assert find(column, gap_s=0.3) == [(0.0, 0.7)]
    assert find(column, minimum_s=0.2) == []


def test_an_event_ends_with_the_sound() -> None:
    assert find([0.0, 0.9, 0.9], sound_s=0.25) == [(0.1, 0.25)]
    assert find([0.0, 0.0, 0.0, 0.9], sound_s=0.25) == []


def test_each_label_has_its_own_threshold_and_the_background_has_none() -> None:
    values = np.array([[0.9, 0.4, 0.4], [0.1, 0.6, 0.45], [0.2, 0.3, 0.6]])
    step = FindEvents(labels=("nothing", "dog", "cat"), thresholds={"cat": 0.5, "dog": 0.35})
    answer = step.apply(FrameScores(values=values, frame_s=0.1, sound_s=1.0))
    assert answer == {
        "events": [
            {"label": "dog", "start_s": 0.0, "end_s": 0.2, "score": 0.6},
            {"label": "cat", "start_s": 0.2, "end_s": 0.3, "score": 0.6},
        ]
    }
    assert describe_events(answer) == "dog 0.00-0.20 s (0.60), cat 0.20-0.30 s (0.60)"
    assert describe_events({"events": []}) == "nothing heard"
    assert describe_events({"events": answer["events"] * 5}).endswith(" …")


def test_refuses_columns_without_a_label() -> None:
    with pytest.raises(BadOutput, match="scores of 2 labels, expected 1"):
        FindEvents(labels=("dog",), thresholds={"dog": 0.5}).apply(
            FrameScores(values=np.zeros((3, 2)), frame_s=0.1, sound_s=1.0)
        )


@pytest.mark.parametrize(
    ("labels", "thresholds", "expected"),
    [(("dog",), {"cat": 0.5}, "'cat' is not among"), (("dog", "dog"), {"dog": 0.5}, "named twice")],
)
def test_refuses_labels_that_contradict_the_thresholds(labels: Any, thresholds: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        FindEvents(labels=labels, thresholds=thresholds)


@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60),
    st.integers(0, 4).map(lambda frames: frames / 10),
    st.integers(0, 4).map(lambda frames: frames / 10),
)
def test_events_are_apart_long_enough_and_hold_every_loud_frame_of_theirs(
    column: list[float], gap_s: float, minimum_s: float
) -> None:
    events = find(column, gap_s=gap_s, minimum_s=minimum_s)
    assert all(end_s - start_s >= minimum_s - 1e-6 for start_s, end_s in events)
    assert all(later - end_s > gap_s + 1e-6 for (_, end_s), (later, _) in pairwise(events))
    assert all(column[round(start_s * 10)] and column[round(end_s * 10) - 1] for start_s, end_s in events)
    if not minimum_s:
        inside = {at for start_s, end_s in events for at in range(round(start_s * 10), round(end_s * 10))}
        assert {at for at, value in enumerate(column) if value} <= inside


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        (said(("dog", 0.0, 1.0)), said(("dog", 0.0, 1.0)), 1.0),
        (said(("dog", 0.0, 1.0)), said(("dog", 0.04, 1.04)), 1.0),
        (said(("dog", 0.0, 1.0)), said(("dog", 0.5, 1.5)), 0.5),
        (said(("dog", 0.0, 1.0)), said(("cat", 0.0, 1.0)), 0.0),
        (said(("dog", 0.0, 1.0)), said(), 0.0),
        (said(), said(("dog", 0.0, 1.0)), 0.0),
        (said(), said(), 1.0),
        (said(("dog", 0.0, 0.6), ("cat", 0.0, 0.4)), said(("dog", 0.0, 0.6)), 2 * 6 / (10 + 6)),
        (said(("dog", 0.0, 0.6)), said(("dog", 0.0, 0.4), ("dog", 0.2, 0.6)), 1.0),
        (said(("dog", 0.0, 0.01)), said(("dog", 0.02, 0.04)), 1.0),
        (said(("dog", 0.0, 1.0)) | {"duration_s": 2.0}, said(("dog", 0.0, 1.0), ("cat", 2.0, 9.0)), 1.0),
        (said(("dog", 0.0, 1.0)) | {"duration_s": 2.0}, said(("dog", 0.0, 3.0)), 2 * 10 / (10 + 20)),
    ],
)
def test_f1_counts_frames_of_each_label(expected: Answer, answer: Answer, score: float) -> None:
    verdict = F1.compare(answer, expected=expected)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.7)


@given(st.data())
def test_f1_is_that_of_the_marked_frames(data: st.DataObject) -> None:
    """Independent of how spans are written: the same set of frames always scores the same."""

    def draw() -> tuple[Answer, NDArray[np.bool_]]:
        frames = np.zeros((2, 30), dtype=bool)
        spans = data.draw(
            st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(0, 20), st.integers(1, 10)), max_size=5)
        )
        for label, first, length in spans:
            frames[label, first : first + length] = True
        return said(*(("dog" if label else "cat", at / 10, (at + length) / 10) for label, at, length in spans)), frames

    expected, wanted = draw()
    answer, heard = draw()
    total = int(wanted.sum() + heard.sum())
    score = 2 * int((wanted & heard).sum()) / total if total else 1.0
    assert F1.compare(answer, expected=expected).score == pytest.approx(score)


def test_the_verdict_gives_its_numbers_in_words() -> None:
    verdict = F1.compare(said(("dog", 0.5, 1.5)), expected=said(("dog", 0.0, 1.0)))
    assert verdict.words == (
        "F1 0.500, at least 0.7 wanted: 5 of 10 frames of 0.1 s heard, 5 heard in which nothing was"
    )


@pytest.mark.parametrize(
    "expected",
    [{}, [], None, {"events": [{"label": "dog", "start_s": 2.0, "end_s": 1.0}]}, {"events": [{"label": "dog"}]}],
)
def test_refuses_an_expected_answer_without_events(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"events\.f1: expected answer"):
        F1.compare(said(), expected=expected)
