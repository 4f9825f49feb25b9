"""Which notes does a network's output hold, and are they the notes that were played?

A note begins where the onset posterior of its pitch has a peak, and lasts while the frame posterior goes on.
"""

from itertools import pairwise
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.values import Answer, Outputs, Posteriors, Tensors, Verdict, Windowing

DESCRIBED_NOTES = 16
_GAP_S = 0.03
"""A frame posterior that dips for less doesn't end a note: at an onset the two posteriors may be a frame apart."""

_NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Pitch = Annotated[int, Meta(ge=0, le=127)]
_Column = NDArray[np.float32]


class Unwrap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`notes.unwrap`: trim half the overlap from both sides of each window and join what is left."""

    takes: ClassVar[Any] = Outputs[Windowing]
    gives: ClassVar[type] = Posteriors

    onset_output: Name
    frame_output: Name

    def apply(self, outputs: Outputs[Windowing]) -> Posteriors:
        """Join windows of [1, window_frames, pitches] to one array of [sound_frames, pitches].

        Raises:
            BadOutput: an output is missing, of another shape, or not finite.
        """
        cut = outputs.context
        if len(outputs.calls) != cut.windows:
            raise BadOutput(f"outputs of {len(outputs.calls)} inferences, expected {cut.windows}")
        onsets = self._join(outputs, name=self.onset_output)
        frames = self._join(outputs, name=self.frame_output)
        if onsets.shape != frames.shape:
            raise BadOutput(f"onsets have the shape {onsets.shape}, frames {frames.shape}, expected the same")
        return Posteriors(onsets=onsets, frames=frames, frame_s=cut.frame_s)

    def _join(self, outputs: Outputs[Windowing], *, name: str) -> NDArray[np.float32]:
        cut = outputs.context
        first = cut.overlap_frames // 2
        windows = [_check_window(call, name=name, cut=cut)[first : first + cut.step_frames] for call in outputs.calls]
        if len({window.shape for window in windows}) != 1:
            raise BadOutput(f"output {name!r}: its windows differ in the number of pitches")
        return np.concatenate(windows)[: cut.sound_frames]


class Decode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`notes.decode`: note events from the posteriors of onsets and frames."""

    takes: ClassVar[type] = Posteriors
    gives: ClassVar[type] = dict

    onset_threshold: Fraction
    frame_threshold: Fraction
    min_note_ms: Annotated[float, Meta(gt=0, le=10_000)]
    """Shorter notes are dropped, and of two onsets of a pitch that are nearer the likelier one counts."""
    lowest_pitch: Pitch
    """MIDI number of the first column."""

    def apply(self, posteriors: Posteriors) -> Answer:
        """Give `{"notes": [{pitch, start_s, end_s, velocity}, ...], "length_s"}`, by start and then pitch.

        `velocity` is the onset posterior in MIDI's range of 1 to 127.
        """
        frame_s = posteriors.frame_s
        shortest = max(1, round(self.min_note_ms / 1000 / frame_s))
        notes = [
            {
                "pitch": self.lowest_pitch + pitch,
                "start_s": round(start * frame_s, 3),
                "end_s": round(end * frame_s, 3),
                "velocity": max(1, round(127 * float(posteriors.onsets[start, pitch]))),
            }
            for pitch in range(posteriors.onsets.shape[1])
            for start, end in self._find_notes(
                posteriors.onsets[:, pitch],
                frames=posteriors.frames[:, pitch],
                shortest=shortest,
                gap=max(1, round(_GAP_S / frame_s)),
            )
        ]
        notes.sort(key=lambda note: (note["start_s"], note["pitch"]))
        return {"notes": notes, "length_s": round(len(posteriors.frames) * frame_s, 3)}

    def _find_notes(self, onsets: _Column, *, frames: _Column, shortest: int, gap: int) -> list[tuple[int, int]]:
        """First frame of each note of one pitch, and the frame after its last."""
        peaks = _find_peaks(onsets, threshold=self.onset_threshold, apart=shortest)
        notes = [
            (start, _follow(frames, start=start, stop=stop, threshold=self.frame_threshold, gap=gap))
            for start, stop in pairwise([*peaks, len(frames)])
        ]
        return [(start, end) for start, end in notes if end - start >= shortest]


class PlayedNote(msgspec.Struct, frozen=True, kw_only=True):
    """One expected note; other fields than these two aren't compared."""

    pitch: Pitch
    start_s: Annotated[float, Meta(ge=0)]


class PlayedNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `notes.f1` expects: `{"notes": [{"pitch", "start_s"}, ...]}`."""

    notes: Annotated[tuple[PlayedNote, ...], Meta(min_length=1, max_length=10_000)]


class NotesF1(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`notes.f1`: how many notes were heard at the right pitch and time, none counted twice.

    Precision, recall and F1 of onset matches, as Bay, Ehmann and Downie define them ("Evaluation of multiple-F0
    estimation and tracking systems", ISMIR 2009; their tolerance is 0.05 s).
    """

    onset_tolerance_s: Annotated[float, Meta(gt=0, le=10)]
    minimum_f1: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `notes.decode` by the notes that were played.

        Raises:
            BadPipeline: `expected` isn't a list of notes.
        """
        played = _parse_notes(expected, what="expected answer")
        heard = _parse_notes({"notes": answer["notes"]}, what="answer") if answer["notes"] else ()
        right = sum(
            _count_matches(
                [note.start_s for note in played if note.pitch == pitch],
                heard=[note.start_s for note in heard if note.pitch == pitch],
                tolerance_s=self.onset_tolerance_s,
            )
            for pitch in {note.pitch for note in played}
        )
        score = 2 * right / (len(played) + len(heard))
        return Verdict(
            passed=score >= self.minimum_f1,
            score=score,
            words=(
                f"F1 {score:.3f}, at least {self.minimum_f1:g} wanted: {right} of {len(played)} notes heard within "
                f"{self.onset_tolerance_s:g} s, {len(heard) - right} heard that were not played"
            ),
        )


def describe_notes(answer: Answer) -> str:
    """Put the answer of `notes.decode` in words: `C4 E4 G4`, by start and then pitch (C4 is MIDI 60)."""
    names = [name_pitch(note["pitch"]) for note in answer["notes"]]
    if not names:
        return "no notes"
    return " ".join(names[:DESCRIBED_NOTES]) + (" …" if len(names) > DESCRIBED_NOTES else "")


def name_pitch(pitch: int) -> str:
    """Name of a MIDI pitch: 60 is C4."""
    return f"{_NAMES[pitch % 12]}{pitch // 12 - 1}"


def _check_window(call: Tensors, *, name: str, cut: Windowing) -> NDArray[np.float32]:
    """Give one window's output as [window_frames, pitches]."""
    if name not in call:
        raise BadOutput(f"output {name!r} is missing, found {sorted(call)}")
    output = call[name]
    if output.ndim != 3 or output.shape[:2] != (1, cut.window_frames):
        raise BadOutput(
            f"output {name!r} has the shape {list(output.shape)}, expected [1, {cut.window_frames}, pitches]"
        )
    if output.dtype.kind != "f" or not np.isfinite(output).all():
        raise BadOutput(f"output {name!r} ({output.dtype}) holds values that are not finite floats")
    window: NDArray[np.float32] = output[0].astype(np.float32, copy=False)
    return window


def _find_peaks(values: _Column, *, threshold: float, apart: int) -> list[int]:
    """Frames of local maxima at or above a threshold; of two that are less than `apart` frames apart, the higher."""
    edged = np.concatenate(([-np.inf], values, [-np.inf]))
    rises = (edged[1:-1] > edged[:-2]) & (edged[1:-1] >= edged[2:])
    candidates = np.flatnonzero(rises & (values >= threshold))
    free = np.ones(len(values), dtype=bool)
    peaks = []
    for frame in candidates[np.argsort(-values[candidates], kind="stable")]:
        if free[frame]:
            peaks.append(int(frame))
            free[max(0, frame - apart + 1) : frame + apart] = False
    return sorted(peaks)


def _follow(values: _Column, *, start: int, stop: int, threshold: float, gap: int) -> int:
    """Give the frame after the last one at or above a threshold, before the first run of more than `gap` below it."""
    end = start
    for frame in range(start, stop):
        if values[frame] >= threshold:
            end = frame + 1
        elif frame - end >= gap:
            break
    return end


def _count_matches(played: list[float], *, heard: list[float], tolerance_s: float) -> int:
    """Largest number of pairs within a tolerance, each time used once.

    Taking the earliest pair first is best here, because all tolerances are equal.
    """
    waiting = sorted(heard)
    right = 0
    for start_s in sorted(played):
        while waiting and waiting[0] < start_s - tolerance_s:
            waiting.pop(0)
        if waiting and waiting[0] <= start_s + tolerance_s:
            waiting.pop(0)
            right += 1
    return right


def _parse_notes(value: object, *, what: str) -> tuple[PlayedNote, ...]:
    try:
        return msgspec.convert(value, type=PlayedNotes).notes
    except msgspec.ValidationError as error:
        raise BadPipeline(f"notes.f1: {what}: {error}") from None
