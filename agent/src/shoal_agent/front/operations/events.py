"""When is something heard in a sound, and is it when somebody else heard it?"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Activation, Fraction, Name, Numbers, activate, read_output
from shoal_agent.front.operations.values import Answer, FrameScores, Hearing, Outputs, Verdict

MAX_LABELS = 10_000
MAX_EVENTS = 10_000
MAX_LENGTH_S = 3_600.0
DESCRIBED_EVENTS = 8
_ROUNDING = 1e-6
"""Part of a frame by which a time may miss a whole number of frames, being a float."""

LabelText = Annotated[str, Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_LENGTH_S)]


class ReadFrames(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`frames.read`: scores of each label in each frame, all calls one after another.

    An output has frames and labels as its last two dimensions and others of 1 only: [1, frames, labels], [1, labels]
    for the one frame of a call, or [labels].
    """

    takes: ClassVar[Any] = Outputs[Hearing]
    gives: ClassVar[type] = FrameScores

    output: Name
    layout: Literal["frames-labels", "labels-frames"] = "frames-labels"
    activation: Activation = "none"
    frame_s: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds from one frame to the next; 0: those that a call hears, divided by the frames that it gives."""

    def apply(self, outputs: Outputs[Hearing]) -> FrameScores:
        """Join the calls.

        Raises:
            BadOutput: an output is missing, of another shape than that of the first call, or not finite.
        """
        if not outputs.calls:
            raise BadOutput("outputs of no inference, expected 1 or more")
        parts = [self._lay_out(read_output(call, name=self.output)) for call in outputs.calls]
        if len({part.shape for part in parts}) != 1:
            raise BadOutput(f"output {self.output!r}: its shape differs from call to call")
        return FrameScores(
            values=activate(np.concatenate(parts), activation=self.activation),
            frame_s=self.frame_s or outputs.context.call_s / len(parts[0]),
            sound_s=outputs.context.sound_s,
        )

    def _lay_out(self, output: Numbers) -> Numbers:
        """As [frames, labels]."""
        shape = (1, 1, *output.shape)
        if output.size == 0 or any(side != 1 for side in shape[:-2]):
            raise BadOutput(
                f"output {self.output!r} has the shape {list(output.shape)}, expected [1, {', '.join(self._axes)}]"
            )
        part = output.reshape(shape[-2:])
        return part.T if self._axes[0] == "labels" and output.ndim > 1 else part

    @property
    def _axes(self) -> list[str]:
        return self.layout.split("-")


class FindEvents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`events.find`: a label's event lasts as long as its score is at or above the label's threshold.

    Gaps between two events of a label of at most `gap_s` are closed first, then events shorter than `minimum_s` are
    dropped. Labels don't disturb one another: events may overlap.
    """

    takes: ClassVar[type] = FrameScores
    gives: ClassVar[type] = dict

    labels: Annotated[tuple[LabelText, ...], Meta(min_length=1, max_length=MAX_LABELS)]
    """Of the columns of scores, in their order."""
    thresholds: Annotated[dict[LabelText, Annotated[float, Meta(ge=-1e6, le=1e6)]], Meta(min_length=1)]
    """By label. Labels without one, such as the background, have no events."""
    minimum_s: Seconds = 0.0
    gap_s: Seconds = 0.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.thresholds) - set(self.labels))
        if unknown:
            raise ValueError(f"thresholds: {unknown[0]!r} is not among the {len(self.labels)} labels")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels: one is named twice")

    def apply(self, scores: FrameScores) -> Answer:
        """Give `{"events": [{label, start_s, end_s, score}, ...]}`, by start and then label.

        Times are rounded to milliseconds and end with the sound, `score` is the highest of the event's frames, rounded
        to 4 decimals. Of more than MAX_EVENTS, those with the highest scores are given.

        Raises:
            BadOutput: there are more or fewer columns than labels.
        """
        if scores.values.shape[1] != len(self.labels):
            raise BadOutput(f"scores of {scores.values.shape[1]} labels, expected {len(self.labels)}")
        gap = int(self.gap_s / scores.frame_s + _ROUNDING)
        minimum = max(1, int(np.ceil(self.minimum_s / scores.frame_s - _ROUNDING)))
        events: list[Answer] = []
        for label, column in zip(self.labels, scores.values.T, strict=True):
            if label not in self.thresholds:
                continue
            for first, last in _find_runs(column >= self.thresholds[label], gap=gap):
                start_s, end_s = first * scores.frame_s, min(last * scores.frame_s, scores.sound_s)
                if last - first >= minimum and start_s < end_s:
                    events.append(
                        {
                            "label": label,
                            "start_s": round(start_s, 3),
                            "end_s": round(end_s, 3),
                            "score": round(float(column[first:last].max()), 4),
                        }
                    )
        events.sort(key=lambda event: event["score"], reverse=True)
        return {"events": sorted(events[:MAX_EVENTS], key=lambda event: (event["start_s"], event["label"]))}


class HeardEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event; other fields than these aren't compared."""

    label: LabelText
    start_s: Seconds
    end_s: Seconds

    def __post_init__(self) -> None:
        if self.end_s < self.start_s:
            raise ValueError(f"an event of {self.label!r} ends at {self.end_s:g} s, before its start")


class HeardEvents(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `events.f1` expects: `{"events": [{"label", "start_s", "end_s"}, ...]}`, perhaps none."""

    events: Annotated[tuple[HeardEvent, ...], Meta(max_length=MAX_EVENTS)]
    duration_s: Seconds = 0.0
    """Until when somebody listened: what the answer says of the time after it isn't judged. 0: to the end."""


class EventsF1(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`events.f1`: F1 over all pairs of a label and a frame, in which the label is heard or not.

    That is the micro-averaged segment-based F-score of Mesaros, Heittola and Virtanen ("Metrics for polyphonic sound
    event detection", Applied Sciences 6(6), 2016), but with an event's ends rounded to whole frames of `frame_s`, so
    that a millisecond doesn't count as a frame. Every event has at least one frame. 1 where none was to be heard and
    none was.
    """

    frame_s: Annotated[float, Meta(ge=0.001, le=60)]
    minimum_f1: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `events.find` by the events that somebody heard.

        Raises:
            BadPipeline: `expected` isn't a list of events.
        """
        known = _parse_events(expected, what="expected answer")
        found = _parse_events(answer, what="answer")
        right = wanted_frames = heard_frames = 0
        for label in {event.label for event in (*known.events, *found.events)}:
            wanted = self._mark(known, label=label, until_s=known.duration_s)
            heard = self._mark(found, label=label, until_s=known.duration_s)
            right += int((wanted[: heard.size] & heard[: wanted.size]).sum())
            wanted_frames, heard_frames = wanted_frames + int(wanted.sum()), heard_frames + int(heard.sum())
        total = wanted_frames + heard_frames
        score = 2 * right / total if total else 1.0
        return Verdict(
            passed=score >= self.minimum_f1,
            score=score,
            words=(
                f"F1 {score:.3f}, at least {self.minimum_f1:g} wanted: {right} of {wanted_frames} frames of "
                f"{self.frame_s:g} s heard, {heard_frames - right} heard in which nothing was"
            ),
        )

    def _mark(self, heard: HeardEvents, *, label: str, until_s: float) -> NDArray[np.bool_]:
        """In which frames a label is heard: bool[frames], up to the end of its last event."""
        spans = []
        for event in heard.events:
            if event.label == label:
                first = round(event.start_s / self.frame_s)
                spans.append((first, max(first + 1, round(event.end_s / self.frame_s))))
        marks = np.zeros(max((last for _, last in spans), default=0), dtype=bool)
        for first, last in spans:
            marks[first:last] = True
        return marks[: round(until_s / self.frame_s)] if until_s else marks


def describe_events(answer: Answer) -> str:
    """Put the answer of `events.find` in words: `speech 0.32-1.09 s (0.97), dog 2.00-2.50 s (0.81)`."""
    events = answer["events"]
    if not events:
        return "nothing heard"
    words = [
        "{label} {start_s:.2f}-{end_s:.2f} s ({score:.2f})".format_map(event) for event in events[:DESCRIBED_EVENTS]
    ]
    return ", ".join(words) + (" …" if len(events) > DESCRIBED_EVENTS else "")


def _find_runs(is_active: NDArray[np.bool_], *, gap: int) -> list[tuple[int, int]]:
    """First frame of each run and the frame after its last, runs that are at most `gap` frames apart being one."""
    edges = np.flatnonzero(np.diff(is_active.astype(np.int8), prepend=0, append=0))
    runs: list[tuple[int, int]] = []
    for first, last in edges.reshape(-1, 2).tolist():
        if runs and first - runs[-1][1] <= gap:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return runs


def _parse_events(value: object, *, what: str) -> HeardEvents:
    try:
        return msgspec.convert(value, type=HeardEvents)
    except msgspec.ValidationError as error:
        raise BadPipeline(f"events.f1: {what}: {error}") from None
