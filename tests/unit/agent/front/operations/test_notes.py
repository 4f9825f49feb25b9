"""Are notes found where the posteriors say so, and is F1 what its definition says?"""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.audio import Window
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.notes import Decode, NotesF1, Unwrap, describe_notes, name_pitch
from shoal_agent.front.operations.values import Answer, Outputs, Posteriors, Sound, Tensors, Windowing

FRAME_S = 0.01
UNWRAP = Unwrap(onset_output="on", frame_output="fr")
CUT = Windowing(sound_samples=8, sample_rate_hz=100, frame_samples=1, window_frames=6, overlap_frames=2)
"""Eight frames: two windows of six that share two."""

F1 = NotesF1(onset_tolerance_s=0.05, minimum_f1=0.8)


def outputs_of(*calls: Tensors, cut: Windowing = CUT) -> Outputs[Windowing]:
    return Outputs(calls=calls, context=cut)


def window(values: float | NDArray[np.float32] = 0.0, *, frames: int = 6, pitches: int = 3) -> NDArray[np.float32]:
    return np.broadcast_to(np.asarray(values, dtype=np.float32), (1, frames, pitches)).copy()


def decode(
    onsets: dict[int, dict[int, float]], frames: dict[int, list[tuple[int, int]]], *, min_note_ms: float = 50.0
) -> Answer:
    """Decode one second of 100 frames. Onsets by pitch and frame; spans [first, end) in which a pitch sounds."""
    posteriors = Posteriors(
        onsets=np.zeros((100, 88), dtype=np.float32), frames=np.zeros((100, 88), dtype=np.float32), frame_s=FRAME_S
    )
    for pitch, peaks in onsets.items():
        for frame, value in peaks.items():
            posteriors.onsets[frame, pitch - 21] = value
    for pitch, spans in frames.items():
        for first, end in spans:
            posteriors.frames[first:end, pitch - 21] = 0.9
    step = Decode(onset_threshold=0.5, frame_threshold=0.5, min_note_ms=min_note_ms, lowest_pitch=21)
    return step.apply(posteriors)


def spans_of(answer: Answer) -> list[tuple[int, float, float]]:
    return [(note["pitch"], note["start_s"], note["end_s"]) for note in answer["notes"]]


@given(
    samples=st.integers(1, 3_000),
    overlap=st.integers(0, 12).map(lambda half: 2 * half),
    frame_samples=st.integers(1, 8),
    tail=st.integers(0, 7),
)
def test_unwrapping_undoes_windowing_for_any_overlap(samples: int, overlap: int, frame_samples: int, tail: int) -> None:
    """A network that passes on the first sample of each frame must give every frame of the sound, once and in order."""
    sound = np.arange(1, samples + 1, dtype=np.float32)
    length = 26 * frame_samples - tail % frame_samples
    cut = Window(input="in", length=length, frame_samples=frame_samples, overlap_frames=overlap)
    prepared = cut.apply(Sound(samples=sound, sample_rate_hz=100))
    passed_on = [call["in"][:, ::frame_samples, :] for call in prepared.calls]
    joined = UNWRAP.apply(outputs_of(*({"on": values, "fr": -values} for values in passed_on), cut=prepared.context))
    assert joined.onsets[:, 0].tolist() == sound[::frame_samples].tolist()
    assert joined.frames[:, 0].tolist() == (-sound[::frame_samples]).tolist()


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([{"on": window(), "fr": window()}], "outputs of 1 inferences, expected 2"),
        ([{"on": window()}] * 2, "'fr' is missing"),
        ([{"on": window(), "fr": window(frames=5)}] * 2, r"shape \[1, 5, 3\], expected \[1, 6, pitches\]"),
        ([{"on": window(), "fr": window()[0]}] * 2, r"shape \[6, 3\]"),
        ([{"on": window(), "fr": window(pitches=4)}] * 2, "expected the same"),
        ([{"on": window(), "fr": window()}, {"on": window(pitches=2), "fr": window()}], "differ in the number"),
        ([{"on": window(np.nan), "fr": window()}] * 2, "not finite"),
        ([{"on": window(), "fr": window().astype(np.int64)}] * 2, "int64"),
    ],
)
def test_refuses_outputs_that_do_not_fit(calls: list[Tensors], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        UNWRAP.apply(outputs_of(*calls))


def test_a_note_lasts_from_its_onset_to_the_end_of_its_frames() -> None:
    answer = decode({60: {10: 0.8}}, {60: [(10, 40)]})
    assert answer == {
        "notes": [{"pitch": 60, "start_s": 0.1, "end_s": 0.4, "velocity": 102}],
        "length_s": 1.0,
    }


def test_an_onset_without_frames_is_no_note() -> None:
    assert spans_of(decode({60: {10: 0.8}}, {})) == []


def test_frames_without_an_onset_are_no_note() -> None:
    assert spans_of(decode({60: {10: 0.4}}, {60: [(10, 40)]})) == []


def test_a_second_onset_ends_the_first_note() -> None:
    assert spans_of(decode({60: {10: 0.8, 30: 0.9}}, {60: [(10, 50)]})) == [(60, 0.1, 0.3), (60, 0.3, 0.5)]


def test_of_two_onsets_nearer_than_the_shortest_note_the_likelier_counts() -> None:
    assert spans_of(decode({60: {10: 0.8, 13: 0.9}}, {60: [(8, 50)]})) == [(60, 0.13, 0.5)]


def test_a_short_dip_does_not_end_a_note_and_a_long_one_does() -> None:
    assert spans_of(decode({60: {10: 0.8}}, {60: [(10, 20), (22, 40)]})) == [(60, 0.1, 0.4)]
    assert spans_of(decode({60: {10: 0.8}}, {60: [(10, 20), (30, 40)]})) == [(60, 0.1, 0.2)]


def test_notes_shorter_than_the_shortest_are_dropped() -> None:
    onsets, frames = {60: {10: 0.8}}, {60: [(10, 18)]}
    assert spans_of(decode(onsets, frames, min_note_ms=80.0)) == [(60, 0.1, 0.18)]
    assert spans_of(decode(onsets, frames, min_note_ms=90.0)) == []


def test_an_onset_in_the_first_and_in_the_last_frame_is_seen() -> None:
    assert spans_of(decode({60: {0: 0.8}, 62: {99: 0.8}}, {60: [(0, 9)], 62: [(99, 100)]}, min_note_ms=10.0)) == [
        (60, 0.0, 0.09),
        (62, 0.99, 1.0),
    ]


def test_notes_come_by_start_and_then_pitch() -> None:
    answer = decode({64: {10: 0.8}, 60: {10: 0.8}, 62: {5: 0.8}}, {64: [(10, 20)], 60: [(10, 20)], 62: [(5, 20)]})
    assert [pitch for pitch, _, _ in spans_of(answer)] == [62, 60, 64]
    assert describe_notes(answer) == "D4 C4 E4"


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60), st.integers(10, 200))
def test_notes_of_a_pitch_never_overlap_and_are_long_enough(values: list[float], min_note_ms: int) -> None:
    column = np.array(values, dtype=np.float32)[:, np.newaxis]
    step = Decode(onset_threshold=0.3, frame_threshold=0.2, min_note_ms=min_note_ms, lowest_pitch=60)
    spans = spans_of(step.apply(Posteriors(onsets=column, frames=column[::-1], frame_s=FRAME_S)))
    shortest_s = max(1, round(min_note_ms / 10)) * FRAME_S
    assert all(end - start >= shortest_s - 1e-9 for _, start, end in spans)
    assert all(end <= start for (_, _, end), (_, start, _) in pairwise(spans))


@pytest.mark.parametrize(("pitch", "name"), [(21, "A0"), (60, "C4"), (69, "A4"), (70, "A#4"), (108, "C8")])
def test_pitches_have_their_usual_names(pitch: int, name: str) -> None:
    assert name_pitch(pitch) == name


def test_long_answers_are_cut_in_words_and_empty_ones_are_named() -> None:
    assert describe_notes({"notes": []}) == "no notes"
    assert describe_notes({"notes": [{"pitch": 60}] * 17}) == " ".join(["C4"] * 16) + " …"


def heard(*notes: tuple[int, float]) -> Answer:
    return {"notes": [{"pitch": p, "start_s": s, "end_s": s + 0.2, "velocity": 90} for p, s in notes]}


@pytest.mark.parametrize(
    ("played", "answer", "score"),
    [
        (heard((60, 0.1), (64, 0.1)), heard((60, 0.14), (64, 0.06)), 1.0),
        (heard((60, 0.1), (64, 0.1)), heard((60, 0.1)), 2 / 3),
        (heard((60, 0.1)), heard((60, 0.1), (72, 0.1), (79, 0.1)), 0.5),
        (heard((60, 0.1)), heard((61, 0.1)), 0.0),
        (heard((60, 0.1)), heard((60, 0.2)), 0.0),
        (heard((60, 0.1)), heard((60, 0.08), (60, 0.12)), 2 / 3),
        (heard((60, 0.1)), heard(), 0.0),
    ],
)
def test_f1_counts_pairs_of_right_pitch_and_time(played: Answer, answer: Answer, score: float) -> None:
    verdict = F1.compare(answer, expected=played)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.8)


def test_the_verdict_gives_its_numbers_in_words() -> None:
    verdict = F1.compare(heard((60, 0.1), (61, 0.1)), expected=heard((60, 0.1), (64, 0.1)))
    assert verdict.words == (
        "F1 0.500, at least 0.8 wanted: 1 of 2 notes heard within 0.05 s, 1 heard that were not played"
    )


def best_pairing(played: list[int], answer: list[int]) -> int:
    """Most pairs that are at most 5 apart, by trying all."""
    shorter, longer = sorted((played, answer), key=len)
    return max(
        sum(abs(a - b) <= 5 for a, b in zip(shorter, order, strict=True))
        for order in permutations(longer, len(shorter))
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_f1_finds_the_best_pairing(played: list[int], answer: list[int]) -> None:
    verdict = NotesF1(onset_tolerance_s=5.0, minimum_f1=0.0).compare(
        heard(*((60, float(start)) for start in answer)), expected=heard(*((60, float(start)) for start in played))
    )
    assert verdict.score == pytest.approx(2 * best_pairing(played, answer) / (len(played) + len(answer)))


@pytest.mark.parametrize("expected", [{}, {"notes": []}, {"notes": [{"pitch": "C4", "start_s": 0.1}]}, [], None])
def test_refuses_an_expected_answer_without_notes(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"notes\.f1: expected answer"):
        F1.compare(heard(), expected=expected)
