"""Which named operations may a manifest ask for? The tables of pre-processing, post-processing and comparison.

An operation is a frozen struct of its parameters, so a manifest's parameters are parsed once and strictly. To add
one: write its struct in the module of its field, then name it here.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from shoal_agent.front.operations.audio import DecodeWav, Window
from shoal_agent.front.operations.faces import DecodeAnchors, FacesIou, MergeFaces, describe_faces
from shoal_agent.front.operations.images import DecodeImage, Letterbox
from shoal_agent.front.operations.notes import Decode, NotesF1, Unwrap, describe_notes
from shoal_agent.front.operations.values import Answer, Verdict


class Step(Protocol):
    """One step: a value of the type `takes` becomes one of the type `gives`.

    The last of pre-processing gives a Prepared of some context, the first of post-processing takes Outputs of the same.
    """

    takes: ClassVar[Any]
    gives: ClassVar[Any]

    def apply(self, value: Any, /) -> Any:
        """Do it. Raises BadInput or BadOutput."""


class Comparison(Protocol):
    """A way to judge an answer by the one that a golden case expects."""

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge. Raises BadPipeline where `expected` is not what this comparison takes."""


PRE: dict[str, type[Step]] = {
    "audio.decode_wav": DecodeWav,
    "audio.window": Window,
    "image.decode": DecodeImage,
    "image.letterbox": Letterbox,
}

POST: dict[str, type[Step]] = {
    "notes.unwrap": Unwrap,
    "notes.decode": Decode,
    "faces.decode": DecodeAnchors,
    "faces.merge": MergeFaces,
}

COMPARISONS: dict[str, type[Comparison]] = {
    "notes.f1": NotesF1,
    "faces.iou": FacesIou,
}

DESCRIPTIONS: dict[str, Callable[[Answer], str]] = {
    "notes.decode": describe_notes,
    "faces.merge": describe_faces,
}
"""How to put an answer in words, by the operation that gave it."""
