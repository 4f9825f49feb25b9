"""What does a task say of single answers: how right, how near the boundary, how alike, in which words?"""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.pipeline import compare
from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.tasks import TASKS, make_task
from shoal_converters.tasks.distribution import Distribution, count_answers
from shoal_converters.tasks.labels import Places
from shoal_wire.histogram import Sketch

Said = dict[str, Any]

BOX = {"left": 0.0, "top": 0.0, "right": 0.5, "bottom": 0.5}
HALF = {"left": 0.0, "top": 0.0, "right": 0.5, "bottom": 0.25}
AWAY = {"left": 0.6, "top": 0.6, "right": 0.9, "bottom": 0.9}
CAT = {"classes": [{"label": "cat", "score": 0.7}, {"label": "dog", "score": 0.2}]}
MASK = {"mask": {"width": 2, "height": 1, "labels": ["sky", "sea"], "runs": [[0, 1], [1, 1]]}}
SKY = {"mask": {"width": 2, "height": 1, "labels": ["sky", "sea"], "runs": [[0, 2]]}}
YES = {"events": [{"label": "yes", "start_s": 0.0, "end_s": 0.4, "score": 0.9}]}
NORMAL = {"score": 1.0, "is_anomalous": False, "threshold": 3.0}

CASES: list[tuple[str, Said, Said, float, float]] = [
    ("classification", CAT, {"label": "cat"}, 0.7, 0.5),
    ("classification", CAT, {"label": "dog"}, 0.0, -0.5),
    ("classification", CAT, {"label": "cow"}, 0.0, -0.7),
    (
        "detection",
        {"objects": [{"label": "cat", "box": BOX, "score": 0.6}]},
        {"objects": [{"label": "cat", "box": BOX}]},
        1.0,
        0.6,
    ),
    (
        "detection",
        {"objects": [{"label": "cat", "box": HALF, "score": 0.6}]},
        {"objects": [{"label": "cat", "box": BOX}]},
        0.5,
        0.0,
    ),
    ("detection", {"objects": []}, {"objects": [{"label": "cat", "box": BOX}]}, 0.0, -1.0),
    ("segmentation", MASK, MASK, 1.0, 1.0),
    ("segmentation", SKY, MASK, 0.25, -0.5),
    ("events", YES, {"events": [{"label": "yes", "start_s": 0.0, "end_s": 0.4}]}, 1.0, 1.0),
    ("events", YES, {"events": [{"label": "yes", "start_s": 0.2, "end_s": 0.6}]}, 0.5, 0.0),
    ("embedding", {"embedding": [3.0, 4.0]}, {"embedding": [1.0, 0.0]}, 0.6, 0.2),
    ("embedding", {"embedding": [3.0, 4.0]}, {"group": "x"}, 1.0, 1.0),
    ("regression", {"values": {"t": 1.25}}, {"values": {"t": 1.0}}, 0.75, 0.5),
    ("anomaly", NORMAL, {"is_anomalous": False}, 0.75, 0.5),
    ("anomaly", NORMAL, {"is_anomalous": True}, 0.25, -0.5),
    ("text", {"text": "ab", "tokens": [1, 2]}, {"tokens": [1, 3]}, 0.5, 0.0),
    ("faces", {"faces": [{"box": BOX, "score": 0.6}]}, {"faces": [{"box": BOX}]}, 1.0, 0.6),
    ("faces", {"faces": [{"box": BOX, "score": 0.6}]}, {"is_face": True}, 1.0, 0.6),
    ("faces", {"faces": [{"box": BOX, "score": 0.6}]}, {"is_face": False}, 0.0, -1.0),
    ("faces", {"faces": []}, {"is_face": False}, 1.0, 1.0),
    ("notes", {"notes": [{"pitch": 60, "start_s": 0.0}]}, {"notes": [{"pitch": 60, "start_s": 0.04}]}, 1.0, 1.0),
]


@pytest.mark.parametrize(("name", "answer", "expected", "rating", "margin"), CASES)
def test_an_answer_has_a_rating_and_a_margin(
    name: str, answer: Said, expected: Said, rating: float, margin: float
) -> None:
    task = make_task(name, {})
    assert task.rate(answer, expected) == pytest.approx(rating)
    assert task.margin(answer, expected) == pytest.approx(margin)
    assert task.describe(answer) and task.describe(expected)


@pytest.mark.parametrize(("name", "answer", "expected", "rating", "margin"), [case for case in CASES if case[4] > 0])
def test_what_a_golden_case_expects_is_taken_by_its_comparison(
    name: str, answer: Said, expected: Said, rating: float, margin: float
) -> None:
    task = make_task(name, {})
    golden = task.expect(answer, expected)
    assert compare(task.compare(0.0), answer=answer, expected=json.loads(json.dumps(golden))).passed


AGREEMENTS: list[tuple[str, Said, Said, float]] = [
    ("classification", CAT, {"classes": [{"label": "cat", "score": 0.1}]}, 1.0),
    ("classification", CAT, {"classes": [{"label": "dog", "score": 0.9}]}, 0.0),
    (
        "detection",
        {"objects": [{"label": "cat", "box": BOX, "score": 0.6}]},
        {"objects": [{"label": "cat", "box": HALF, "score": 0.1}]},
        0.5,
    ),
    ("detection", {"objects": []}, {"objects": []}, 1.0),
    ("segmentation", MASK, SKY, 0.25),
    ("events", YES, YES, 1.0),
    ("embedding", {"embedding": [3.0, 4.0]}, {"embedding": [4.0, 3.0]}, 0.96),
    ("regression", {"values": {"t": 1.25}}, {"values": {"t": 1.0}}, 0.75),
    ("anomaly", NORMAL, NORMAL | {"score": 2.9}, 1.0),
    ("anomaly", NORMAL, NORMAL | {"is_anomalous": True}, 0.0),
    ("text", {"text": "ab", "tokens": [1, 2]}, {"text": "ac", "tokens": [1, 3]}, 0.5),
    ("text", {"text": "", "tokens": []}, {"text": "", "tokens": []}, 1.0),
    ("text", {"text": "a", "tokens": [1]}, {"text": "", "tokens": []}, 0.0),
    ("faces", {"faces": [{"box": BOX, "score": 0.6}]}, {"faces": [{"box": AWAY, "score": 0.6}]}, 0.0),
    ("notes", {"notes": []}, {"notes": []}, 1.0),
    ("notes", {"notes": [{"pitch": 60, "start_s": 0.0}]}, {"notes": []}, 0.0),
]


@pytest.mark.parametrize(("name", "answer", "other", "agreement"), AGREEMENTS)
def test_two_answers_agree_so_far(name: str, answer: Said, other: Said, agreement: float) -> None:
    assert make_task(name, {}).agree(answer, other) == pytest.approx(agreement)


LABELLED: list[tuple[str, object, tuple[str, ...], Said]] = [
    ("classification", "dog", ("cat", "dog"), {"label": "dog"}),
    ("classification", 1, Places(("cat", "dog")), {"label": "dog"}),
    ("classification", 1.0, Places(("cat", "dog")), {"label": "dog"}),
    ("classification", "1", Places(("cat", "dog")), {"label": "dog"}),
    ("classification", "1", ("2", "1", "0"), {"label": "1"}),
    ("classification", "1", Places(("0", "2", "1")), {"label": "2"}),
    ("classification", 7, (), {"label": "7"}),
    ("detection", [{"label": "cat", "box": BOX}], ("cat",), {"objects": [{"label": "cat", "box": BOX}]}),
    ("segmentation", MASK, ("sky", "sea"), MASK),
    (
        "events",
        [{"label": "yes", "start_s": 0, "end_s": 1}],
        ("yes",),
        {"events": [{"label": "yes", "start_s": 0.0, "end_s": 1.0}]},
    ),
    ("embedding", "anna", (), {"group": "anna"}),
    ("regression", "2.5", (), {"values": {"value": 2.5}}),
    ("regression", [1, 2], ("a", "b"), {"values": {"a": 1.0, "b": 2.0}}),
    ("regression", {"b": "2", "a": 1}, ("a", "b"), {"values": {"a": 1.0, "b": 2.0}}),
    ("anomaly", "Normal", (), {"is_anomalous": False}),
    ("anomaly", True, (), {"is_anomalous": True}),
    ("anomaly", 1.0, (), {"is_anomalous": True}),
    ("anomaly", "worn", ("fresh", "worn"), {"is_anomalous": True}),
    ("anomaly", 1, ("1", "2"), {"is_anomalous": False}),
    ("anomaly", 1, Places(("1", "2")), {"is_anomalous": True}),
    ("text", "some words", (), {"text": "some words"}),
    ("text", {"tokens": [1, 2]}, (), {"tokens": [1, 2]}),
    ("faces", "no-face", (), {"is_face": False}),
    ("faces", 1, (), {"is_face": True}),
    ("faces", {"objects": [{"label": "face", "box": BOX}]}, (), {"faces": [{"box": BOX}]}),
    ("notes", [{"pitch": 60, "start_s": 0.5, "end_s": 1.0}], (), {"notes": [{"pitch": 60, "start_s": 0.5}]}),
]


@pytest.mark.parametrize(("name", "label", "labels", "expected"), LABELLED)
def test_a_label_becomes_the_expected_answer(name: str, label: object, labels: tuple[str, ...], expected: Said) -> None:
    assert make_task(name, {}).parse_label(label, labels=labels) == expected


def test_a_vector_is_expected_where_cosines_are_judged() -> None:
    assert make_task("embedding", {"judge": "cosine"}).parse_label([1, 2.5], labels=()) == {"embedding": [1.0, 2.5]}


@pytest.mark.parametrize(
    ("name", "label", "said"),
    [
        ("classification", "cow", "label 'cow', expected one of cat, dog, or in the whole set places from 0 to 1"),
        ("classification", 2, "label 2, expected"),
        ("classification", -1, "label -1, expected"),
        ("classification", 0.5, "label 0.5, expected"),
        ("classification", True, "label True, expected"),
        ("classification", ["cat"], "expected one of cat"),
        ("detection", [{"label": "cow", "box": BOX}], "'cow'"),
        ("detection", [{"label": "cat", "box": BOX | {"right": 1.5}}], "right"),
        ("detection", "cat", "label 'cat': Expected `object`"),
        ("segmentation", "cat", "label: Expected `object`"),
        ("segmentation", MASK, r"labels \['sea', 'sky'\], expected those of \['cat', 'dog'\]"),
        ("events", "cat", "expected a list of events"),
        ("events", [{"label": "cat", "start_s": -1, "end_s": 1}], "start_s"),
        ("embedding", "cow", "label 'cow'"),
        ("regression", [1.0], "expected numbers for"),
        ("regression", {"cat": 1.0, "dog": "nan"}, "dog: 'nan', expected a finite number"),
        ("regression", {"cat": 1.0, "dog": 1.0, "cow": 1.0}, "expected numbers for"),
        ("anomaly", "maybe", "expected one of"),
        ("text", "  ", "expected a text of at least a word"),
        ("text", [1, -2], "or a list of tokens"),
        ("faces", "perhaps", "expected one of"),
        ("notes", [], "length"),
        ("notes", [{"pitch": 200, "start_s": 0}], "pitch"),
    ],
)
def test_refuses_a_label_of_another_task(name: str, label: object, said: str) -> None:
    with pytest.raises(BadData, match=said):
        make_task(name, {}).parse_label(label, labels=("cat", "dog"))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("classify", {}, "task 'classify', expected one of .*'classification'"),
        ("classification", {"top": 5}, "unknown option 'top', expected none"),
        ("detection", {"iou": 0.75}, "task detection: .*iou"),
        ("detection", {"treshold": 0.75}, r"unknown option 'treshold', expected \['iou'\]"),
        ("events", {"frame_s": 0}, "frame_s"),
        ("regression", {"scale": -1}, "scale"),
    ],
)
def test_refuses_other_tasks_and_options(name: str, options: Said, said: str) -> None:
    with pytest.raises(BadRecipe, match=said):
        make_task(name, options)


def test_the_metric_names_its_options() -> None:
    assert make_task("detection", {"iou": "0.5:0.95"}).metric == "mAP at IoU 0.5:0.95"
    assert make_task("events", {"frame_s": 0.5}).metric == "F1 by frames of 0.5 s"
    assert len({make_task(name, {}).metric for name in TASKS}) == len(TASKS)


def read(document: Said) -> Distribution:
    return msgspec.convert(json.loads(json.dumps(document)), type=Distribution)


def test_classes_are_summarised_by_label_and_score() -> None:
    document = read(
        make_task("classification", {}).summarise([CAT, CAT, {"classes": [{"label": "dog", "score": 0.4}]}])
    )
    assert (document.answers, document.labels) == (3, {"cat": 2, "dog": 1})
    scores = Sketch.of(document.histograms["score"])
    assert scores.count == 3
    assert scores.quantile(1.0) == pytest.approx(0.7, rel=0.02)
    assert Sketch.of(document.histograms["second score"]).count == 2


@pytest.mark.parametrize(("name", "answer"), [(case[0], case[1]) for case in CASES if case[0] != "notes"])
def test_every_task_summarises_its_answers(name: str, answer: Said) -> None:
    task = make_task(name, {})
    document = read(task.summarise([answer, answer]))
    assert document.answers == 2
    assert document.labels or document.histograms
    assert read(task.summarise([])) == Distribution(answers=0)


@given(st.lists(st.floats(-1e6, 1e6), max_size=50), st.lists(st.floats(-1e6, 1e6), max_size=50))
def test_distributions_add_up(some: list[float], more: list[float]) -> None:
    parts = [read(count_answers(len(part), values={"t": part})) for part in (some, more)]
    whole = read(count_answers(len(some + more), values={"t": some + more}))
    for name, histogram in whole.histograms.items():
        merged = Sketch()
        for part in parts:
            if name in part.histograms:
                merged.merge(part.histograms[name])
        found = merged.histogram()
        assert (found.zeros, found.keys, found.counts) == (histogram.zeros, histogram.keys, histogram.counts)
    assert sum(Sketch.of(one).count for one in whole.histograms.values()) == len(some + more)


def test_a_distribution_is_of_bounded_size() -> None:
    values = {f"value {place}": [1.0, -1.0] for place in range(100)}
    document = read(count_answers(2, labels={str(place): place for place in range(5_000)}, values=values))
    assert (len(document.labels), min(document.labels.values())) == (1_000, 4_000)
    assert len(document.histograms) == 32
