"""Is each task's metric what a hand or another formula gives, over all items and over any selection of them?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_converters.tasks import make_task
from shoal_converters.tasks.task import Task
from sklearn.metrics import roc_auc_score

Said = dict[str, Any]


def classes(*scores: tuple[str, float]) -> Said:
    return {"classes": [{"label": label, "score": score} for label, score in scores]}


def box(left: float, top: float, right: float, bottom: float) -> Said:
    return {"left": left, "top": top, "right": right, "bottom": bottom}


def thing(label: str, where: Said, score: float | None = None) -> Said:
    return {"label": label, "box": where} | ({} if score is None else {"score": score})


def event(label: str, start_s: float, end_s: float, score: float | None = None) -> Said:
    return {"label": label, "start_s": start_s, "end_s": end_s} | ({} if score is None else {"score": score})


def mask(rows: Sequence[str], labels: Sequence[str] = ("a", "b", "c")) -> Said:
    """Each letter is a cell with that label, each a run of its own."""
    runs = [[list(labels).index(letter), 1] for row in rows for letter in row]
    return {"mask": {"width": len(rows[0]), "height": len(rows), "labels": list(labels), "runs": runs}}


def measure(task: Task, answers: list[Said], expected: list[Said], *, of: list[int] | None = None) -> float:
    """Over all, or over a selection, which must be the same as measuring those alone."""
    if of is None:
        return task.measure(answers, expected)
    value = task.score(answers, expected).measure(np.array(of, dtype=np.intp))
    alone = task.measure([answers[place] for place in of], [expected[place] for place in of])
    assert value == pytest.approx(alone, nan_ok=True)
    return value


def test_top_1_is_the_share_of_first_labels_that_are_right() -> None:
    task = make_task("classification", {})
    answers: list[Said] = [classes(("a", 0.9), ("b", 0.1)), classes(("a", 0.6), ("b", 0.4)), classes(("b", 1.0))]
    expected: list[Said] = [{"label": "a"}, {"label": "b"}, {"label": "b"}]
    assert measure(task, answers, expected) == pytest.approx(2 / 3)
    assert measure(task, answers, expected, of=[1, 1, 2, 0]) == 0.5
    assert task.count_pairs(answers, expected) == {("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}
    assert np.isnan(task.measure([], []))


LEFT, RIGHT = box(0.0, 0.0, 0.4, 0.4), box(0.6, 0.6, 1.0, 1.0)


def test_average_precision_falls_with_what_is_missed_and_what_is_wrong_before_it() -> None:
    """One label, two pictures. By score: wrong (0.9), right (0.8), and one box of two is never found.

    Precision is 1/2 up to a recall of 1/2 and 0 beyond: of COCO's 101 points of recall, 51 are at or below 0.5.
    """
    task = make_task("detection", {})
    expected: list[Said] = [{"objects": [thing("a", LEFT)]}, {"objects": [thing("a", LEFT)]}]
    answers: list[Said] = [{"objects": [thing("a", RIGHT, 0.9), thing("a", LEFT, 0.8)]}, {"objects": []}]
    assert measure(task, answers, expected) == pytest.approx(51 / 101 * 0.5)
    assert measure(task, answers, expected, of=[0, 0]) == pytest.approx(0.5)
    assert measure(task, answers, expected, of=[1]) == 0.0
    assert measure(task, answers, expected, of=[0]) == pytest.approx(0.5)


def test_average_precision_is_the_mean_over_labels_that_were_to_be_found() -> None:
    task = make_task("detection", {})
    expected: list[Said] = [{"objects": [thing("a", LEFT), thing("b", RIGHT)]}, {"objects": []}]
    answers: list[Said] = [{"objects": [thing("a", LEFT, 0.9)]}, {"objects": [thing("c", LEFT, 0.9)]}]
    assert measure(task, answers, expected) == pytest.approx(0.5)
    assert np.isnan(measure(task, answers, expected, of=[1, 1]))


def test_a_box_counts_up_to_the_overlap_that_it_has() -> None:
    """It overlaps by 0.72: it counts at 0.50, 0.55, 0.60, 0.65 and 0.70 of ten thresholds."""
    expected: list[Said] = [{"objects": [thing("a", box(0.0, 0.0, 1.0, 0.5))]}]
    answers: list[Said] = [{"objects": [thing("a", box(0.0, 0.0, 1.0, 0.36), 0.9)]}]
    assert measure(make_task("detection", {"iou": "0.5"}), answers, expected) == pytest.approx(1.0)
    assert measure(make_task("detection", {"iou": "0.5:0.95"}), answers, expected) == pytest.approx(0.5)


def test_boxes_are_paired_by_where_they_are() -> None:
    task = make_task("detection", {})
    expected: list[Said] = [{"objects": [thing("a", LEFT), thing("b", RIGHT), thing("b", box(0.0, 0.9, 0.1, 1.0))]}]
    answers: list[Said] = [
        {"objects": [thing("b", LEFT, 0.9), thing("b", RIGHT, 0.8), thing("c", box(0.9, 0, 1, 0.1), 0.7)]}
    ]
    pairs = {("a", "b"): 1, ("b", "b"): 1, ("b", "nothing"): 1, ("nothing", "c"): 1}
    assert task.count_pairs(answers, expected) == pairs


def test_mean_iou_counts_cells_of_all_pictures_together() -> None:
    """a: 3 of 5 cells in common, b: 2 of 4; c is nowhere."""
    task = make_task("segmentation", {})
    expected: list[Said] = [mask(["aab"]), mask(["abb"]), mask(["a"])]
    answers: list[Said] = [mask(["abb"]), mask(["aab"]), mask(["a"])]
    assert measure(task, answers, expected) == pytest.approx((3 / 5 + 2 / 4) / 2)
    assert measure(task, answers, expected, of=[2, 2]) == 1.0
    assert task.count_pairs(answers, expected) == {("a", "a"): 3, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 2}


def test_a_mask_of_another_size_and_order_of_labels_covers_the_same_picture() -> None:
    task = make_task("segmentation", {})
    assert measure(task, [mask(["ba"], labels="ba")], [mask(["bbaa", "bbaa"])]) == 1.0


def test_f1_counts_frames_of_all_sounds_together() -> None:
    """Frames of 0.1 s. First sound: 4 to be heard, 3 heard, 2 of them right. Second: 1, 0, 0."""
    task = make_task("events", {"frame_s": 0.1})
    expected: list[Said] = [{"events": [event("yes", 0.0, 0.4)]}, {"events": [event("no", 0.5, 0.51)]}]
    answers: list[Said] = [{"events": [event("yes", 0.2, 0.4, 0.9), event("no", 0.0, 0.1, 0.5)]}, {"events": []}]
    assert measure(task, answers, expected) == pytest.approx(2 * 2 / (4 + 3 + 1))
    assert measure(task, answers, expected, of=[0]) == pytest.approx(4 / 7)
    assert measure(task, answers, expected, of=[1, 1]) == 0.0
    pairs = {("yes", "yes"): 2, ("yes", "no"): 1, ("yes", "nothing"): 1, ("no", "nothing"): 1}
    assert task.count_pairs(answers, expected) == pairs


def test_what_is_heard_after_the_judged_part_does_not_count() -> None:
    task = make_task("events", {"frame_s": 0.1})
    expected: list[Said] = [{"events": [event("yes", 0.0, 0.2)], "duration_s": 0.2}]
    assert measure(task, [{"events": [event("yes", 0.0, 0.9, 0.9)]}], expected) == 1.0
    assert measure(task, [{"events": []}], [{"events": []}]) == 1.0


TIMES = st.integers(0, 30).map(lambda tenth: tenth / 10)
EVENTS = st.lists(
    st.tuples(st.sampled_from("ab"), TIMES, st.integers(1, 9)).map(
        lambda one: event(one[0], one[1], one[1] + one[2] / 10)
    ),
    max_size=4,
)


@given(EVENTS, EVENTS)
def test_f1_of_a_single_sound_is_that_of_its_golden_case(expected: list[Said], answered: list[Said]) -> None:
    task = make_task("events", {"frame_s": 0.1})
    answer, wanted = {"events": answered}, {"events": expected}
    assert task.measure([answer], [wanted]) == pytest.approx(task.rate(answer, wanted))


CELLS = st.lists(st.sampled_from("abc"), min_size=6, max_size=6).map(
    lambda cells: ["".join(cells[:3]), "".join(cells[3:])]
)


@given(CELLS, CELLS)
def test_mean_iou_of_a_single_picture_is_that_of_its_golden_case(expected: list[str], answered: list[str]) -> None:
    task = make_task("segmentation", {})
    answer, wanted = mask(answered), mask(expected)
    assert task.measure([answer], [wanted]) == pytest.approx(task.rate(answer, wanted))


def test_recall_at_1_asks_whose_nearest_neighbour_is_of_their_group() -> None:
    """Angles of 0, 10, 25 and 180 degrees: who is nearest to whom is 1, 0, 1, 2. An item that is alone isn't judged."""
    task = make_task("embedding", {})
    angles = np.radians([0, 10, 25, 180])
    answers: list[Said] = [{"embedding": [np.cos(angle), np.sin(angle)]} for angle in angles]
    expected: list[Said] = [{"group": "x"}, {"group": "x"}, {"group": "x"}, {"group": "z"}]
    assert task.measure(answers, expected) == 1.0
    expected[2] = {"group": "z"}
    assert task.measure(answers, expected) == pytest.approx(3 / 4)
    assert task.count_pairs(answers, expected) == {("x", "x"): 2, ("z", "x"): 1, ("z", "z"): 1}
    assert task.score(answers, expected).measure(np.array([0, 0, 3])) == 1.0


def test_mean_cosine_to_given_vectors() -> None:
    task = make_task("embedding", {"judge": "cosine"})
    answers: list[Said] = [{"embedding": [2.0, 0.0]}, {"embedding": [1.0, 1.0]}, {"embedding": [-1.0, 0.0]}]
    expected: list[Said] = [{"embedding": [1.0, 0.0]}] * 3
    assert measure(task, answers, expected) == pytest.approx((1 + np.sqrt(0.5) + 0) / 3)
    assert measure(task, answers, expected, of=[0, 0]) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=12))
def test_r_squared_is_the_share_of_variance_that_is_explained(pairs: list[tuple[float, float]]) -> None:
    known, found = np.array(pairs).T
    spread = ((known - known.mean()) ** 2).sum()
    value = make_task("regression", {}).measure(
        [{"values": {"t": one}} for one in found.tolist()], [{"values": {"t": one}} for one in known.tolist()]
    )
    if np.ptp(known) == 0:
        assert np.isnan(value)
    elif spread > 1e-6:
        assert value == pytest.approx(1 - ((known - found) ** 2).sum() / spread)


SCORES = st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=1, max_size=20)


@settings(max_examples=50)
@given(SCORES)
def test_the_area_under_the_curve_is_the_share_of_pairs_in_order(items: list[tuple[bool, int]]) -> None:
    high = [score for is_odd, score in items if is_odd]
    low = [score for is_odd, score in items if not is_odd]
    wins = [1.0 if one > other else 0.5 if one == other else 0.0 for one in high for other in low]
    pairs = float(np.mean(wins)) if wins else float("nan")

    answers: list[Said] = [{"score": float(score), "is_anomalous": score > 4, "threshold": 4.5} for _, score in items]
    expected: list[Said] = [{"is_anomalous": is_odd} for is_odd, _ in items]
    assert make_task("anomaly", {}).measure(answers, expected) == pytest.approx(pairs, nan_ok=True)
    if wins:
        assert roc_auc_score([is_odd for is_odd, _ in items], [score for _, score in items]) == pytest.approx(pairs)

    answers = [{"faces": [{"box": LEFT, "score": score / 8}] if score else []} for _, score in items]
    expected = [{"is_face": is_odd} for is_odd, _ in items]
    assert make_task("faces", {}).measure(answers, expected) == pytest.approx(pairs, nan_ok=True)


def test_texts_agree_from_their_start() -> None:
    task = make_task("text", {})
    answers: list[Said] = [{"text": "the cat sat", "tokens": [5, 6, 7]}, {"text": "a dog", "tokens": [1, 9, 7]}]
    expected: list[Said] = [{"tokens": [5, 6, 8, 9]}, {"text": "a dog ran"}]
    assert measure(task, answers, expected) == pytest.approx((2 / 4 + 2 / 3) / 2)
    assert measure(task, answers, expected, of=[0]) == 0.5


def test_notes_are_judged_sound_by_sound() -> None:
    """First: one of two is heard, and one that wasn't played: F1 1/2. Second: all right."""
    task = make_task("notes", {})
    answers: list[Said] = [
        {"notes": [{"pitch": 60, "start_s": 0.02}, {"pitch": 61, "start_s": 0.5}]},
        {"notes": [{"pitch": 64, "start_s": 1.0}]},
    ]
    expected: list[Said] = [
        {"notes": [{"pitch": 60, "start_s": 0.0}, {"pitch": 62, "start_s": 0.5}]},
        {"notes": [{"pitch": 64, "start_s": 1.0}]},
    ]
    assert measure(task, answers, expected) == pytest.approx(0.75)
    assert measure(task, answers, expected, of=[1]) == 1.0
