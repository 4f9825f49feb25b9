"""What must be known of music transcription: which notes begin when?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from shoal_agent.front.operations.notes import name_pitch
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadRecipe
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_object
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

_SHOWN = 12


class _PlayedNote(msgspec.Struct, frozen=True, kw_only=True):
    pitch: Annotated[int, Meta(ge=0, le=127)]
    start_s: Annotated[float, Meta(ge=0)]


class _PlayedNotes(msgspec.Struct, frozen=True, kw_only=True):
    notes: Annotated[list[_PlayedNote], Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Notes(JudgedByComparison):
    """Answers `{"notes": [{"pitch", "start_s", "end_s", ...}, ...]}`; expected the same without ends.

    The metric is the mean over sounds of `notes.f1`.
    """

    name: ClassVar[str] = "notes"

    onset_tolerance_s: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """How far off a note may begin: as in MIREX's evaluation of onsets."""

    @property
    def metric(self) -> str:
        return f"F1 of notes within {self.onset_tolerance_s:g} s"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """`{"notes": [{"pitch" (MIDI), "start_s"}, ...]}`, or the list alone, as a table's rows have it too."""
        played = parse_object({"notes": label} if isinstance(label, list | tuple) else label, _PlayedNotes)
        document: Expected = msgspec.to_builtins(played)
        return document

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        scores = np.array([self.rate(answer, wanted) for answer, wanted in zip(answers, expected, strict=True)])

        def measure(selection: Selection) -> float:
            return float(scores[selection].mean()) if selection.size else float("nan")

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("notes.f1", {"onset_tolerance_s": self.onset_tolerance_s, "minimum_f1": minimum})

    def agree(self, answer: Answer, other: Answer) -> float:
        """As the comparison has it, which takes no silence for an expected answer."""
        return self.rate(answer, other) if other["notes"] else float(not answer["notes"])

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Notes by their names, notes in a sound, their lengths in seconds."""
        notes = [note for answer in answers for note in answer["notes"]]
        return count_answers(
            len(answers),
            labels=Counter(name_pitch(note["pitch"]) for note in notes),
            values={
                "notes": (len(answer["notes"]) for answer in answers),
                "length_s": (note["end_s"] - note["start_s"] for note in notes),
            },
        )

    def describe(self, answer: Mapping[str, Any]) -> str:
        names = [name_pitch(int(note["pitch"])) for note in answer["notes"]]
        return (" ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")) or "no notes"

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        raise BadRecipe(
            "task notes: frames can't be told from a signature; write audio.decode_wav and audio.window into pre, "
            "notes.unwrap and notes.decode into post"
        )
