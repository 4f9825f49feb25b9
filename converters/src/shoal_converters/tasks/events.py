"""What must be known of sound events and keywords: labels, each from when to when?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Label, Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_name, parse_object
from shoal_converters.tasks.proposals import propose_frames, propose_sound
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

NOTHING = "nothing"
"""What stands in a pair for a frame without events."""
_SHOWN = 4


class HeardEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a data set says of one event."""

    label: Label
    start_s: Annotated[float, Meta(ge=0)]
    end_s: Annotated[float, Meta(ge=0)]

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise ValueError(f"ends at {self.end_s:g} s, expected an end after its start at {self.start_s:g} s")


class HeardEvents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a data set says of one sound."""

    events: tuple[HeardEvent, ...]
    duration_s: Annotated[float, Meta(ge=0)] = 0.0


@dataclass(frozen=True, kw_only=True)
class Events(JudgedByComparison):
    """Answers `{"events": [{"label", "start_s", "end_s", "score"}, ...]}`; expected the same without scores.

    The metric is F1 over all pairs of a label and a frame in all sounds (micro-averaged), frames as `events.f1` has
    them. With `duration_s` expected, what is answered beyond it isn't judged.
    """

    name: ClassVar[str] = "events"

    frame_s: Annotated[float, Meta(ge=0.001, le=60)] = 0.1
    """Seconds in which something is heard or not."""

    @property
    def metric(self) -> str:
        return f"F1 by frames of {self.frame_s:g} s"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """`{"events": [{"label", "start_s", "end_s"}, ...], "duration_s"}`, or the list alone."""
        if isinstance(label, str):
            raise BadData(f"label {label!r}, expected a list of events: what is heard from when to when")
        heard = parse_object({"events": label} if isinstance(label, list | tuple) else label, HeardEvents)
        events = [
            {"label": parse_name(one.label, labels=labels), "start_s": one.start_s, "end_s": one.end_s}
            for one in heard.events
        ]
        return {"events": events} | ({"duration_s": heard.duration_s} if heard.duration_s else {})

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        counts = np.zeros((len(answers), 2), dtype=np.int64)
        """Of each sound: frames that are right, and the sum of those expected and those answered."""
        for place, (answer, wanted) in enumerate(zip(answers, expected, strict=True)):
            seen, found = self._mark(wanted, until=wanted), self._mark(answer, until=wanted)
            counts[place] = len(seen & found), len(seen) + len(found)

        def measure(selection: Selection) -> float:
            right, total = counts[selection].sum(axis=0).tolist()
            return float(2 * right / total) if total else 1.0

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("events.f1", {"frame_s": self.frame_s, "minimum_f1": minimum})

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Labels of events, events in a sound, their scores and lengths in seconds."""
        events = [one for answer in answers for one in answer["events"]]
        return count_answers(
            len(answers),
            labels=Counter(one["label"] for one in events),
            values={
                "events": (len(answer["events"]) for answer in answers),
                "score": (one["score"] for one in events),
                "length_s": (one["end_s"] - one["start_s"] for one in events),
            },
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        """In frames: a label that is missed is paired with each that is heard in its place, or with "nothing"."""
        pairs: Counter[tuple[str, str]] = Counter()
        for answer, wanted in zip(answers, expected, strict=True):
            seen, found = self._mark(wanted, until=wanted), self._mark(answer, until=wanted)
            pairs.update((label, label) for label, _ in seen & found)
            missed, added = _by_frame(seen - found), _by_frame(found - seen)
            for frame in missed.keys() | added.keys():
                pairs.update(
                    (one, other) for one in missed.get(frame, [NOTHING]) for other in added.get(frame, [NOTHING])
                )
        return pairs

    def describe(self, answer: Mapping[str, Any]) -> str:
        words = [f"{one['label']} {one['start_s']:.2f}-{one['end_s']:.2f} s" for one in answer["events"]]
        return (", ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")) or NOTHING

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_sound(inputs, outputs), post=propose_frames(inputs, outputs, labels=labels))

    def _mark(self, said: Mapping[str, Any], *, until: Expected) -> set[tuple[str, int]]:
        """Pairs of a label and a frame in which it is heard, up to the end of what is judged."""
        marks = set()
        end = round(until["duration_s"] / self.frame_s) if "duration_s" in until else None
        for event in said["events"]:
            first = round(event["start_s"] / self.frame_s)
            last = max(first + 1, round(event["end_s"] / self.frame_s))
            marks |= {(event["label"], frame) for frame in range(first, last if end is None else min(last, end))}
        return marks


def _by_frame(marks: set[tuple[str, int]]) -> dict[int, list[str]]:
    frames: dict[int, list[str]] = {}
    for label, frame in sorted(marks):
        frames.setdefault(frame, []).append(label)
    return frames
