"""Which named operations may a manifest ask for? The tables of pre-processing, post-processing and comparison.

An operation is a frozen struct of its parameters, so a manifest's parameters are parsed once and strictly. To add
one: write its struct in the module of its field, then name it here.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from shoal_agent.front.operations.anomaly import AnomalySame, ReadAnomaly, describe_anomaly
from shoal_agent.front.operations.audio import DecodeWav, Window
from shoal_agent.front.operations.candidates import DecodeBoxes
from shoal_agent.front.operations.embedding import EmbeddingCosine, ReadEmbedding, describe_embedding
from shoal_agent.front.operations.events import EventsF1, FindEvents, ReadFrames, describe_events
from shoal_agent.front.operations.faces import DecodeAnchors, FacesIou, MergeFaces, describe_faces
from shoal_agent.front.operations.fitting import FeedImage, FitImage, Letterbox
from shoal_agent.front.operations.generation import ReadPrompt, ReadText, TextStart, describe_text
from shoal_agent.front.operations.images import DecodeImage
from shoal_agent.front.operations.masks import MaskIou, ReadMask, describe_mask
from shoal_agent.front.operations.mel import FeedSpectrogram, LogMel
from shoal_agent.front.operations.notes import Decode, NotesF1, Unwrap, describe_notes
from shoal_agent.front.operations.objects import MergeBoxes, ObjectsIou, describe_objects
from shoal_agent.front.operations.regression import ReadValues, ValuesNear, describe_values
from shoal_agent.front.operations.scores import ClassesFirst, ReadScores, TopClasses, describe_classes
from shoal_agent.front.operations.streams import FitSound, Stream
from shoal_agent.front.operations.tables import DecodeCsv, FeedTable
from shoal_agent.front.operations.text import WordPiece
from shoal_agent.front.operations.values import Answer, Verdict


class Step(Protocol):
    """One step: a value of the type `takes` becomes one of the type `gives`.

    The last of pre-processing gives a Prepared of some context, the first of post-processing takes Outputs of the same,
    or bare Outputs, which are those of any context.
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
    "image.fit": FitImage,
    "image.feed": FeedImage,
    "audio.fit": FitSound,
    "audio.stream": Stream,
    "audio.log_mel": LogMel,
    "spectrogram.feed": FeedSpectrogram,
    "table.decode_csv": DecodeCsv,
    "table.feed": FeedTable,
    "text.wordpiece": WordPiece,
    "text.prompt": ReadPrompt,
}

POST: dict[str, type[Step]] = {
    "notes.unwrap": Unwrap,
    "notes.decode": Decode,
    "faces.decode": DecodeAnchors,
    "faces.merge": MergeFaces,
    "scores.read": ReadScores,
    "classes.top": TopClasses,
    "boxes.decode": DecodeBoxes,
    "boxes.merge": MergeBoxes,
    "mask.read": ReadMask,
    "frames.read": ReadFrames,
    "events.find": FindEvents,
    "embedding.read": ReadEmbedding,
    "values.read": ReadValues,
    "anomaly.read": ReadAnomaly,
    "text.read": ReadText,
}

COMPARISONS: dict[str, type[Comparison]] = {
    "notes.f1": NotesF1,
    "faces.iou": FacesIou,
    "classes.first": ClassesFirst,
    "objects.iou": ObjectsIou,
    "mask.iou": MaskIou,
    "events.f1": EventsF1,
    "embedding.cosine": EmbeddingCosine,
    "values.near": ValuesNear,
    "anomaly.same": AnomalySame,
    "text.start": TextStart,
}

DESCRIPTIONS: dict[str, Callable[[Answer], str]] = {
    "notes.decode": describe_notes,
    "faces.merge": describe_faces,
    "classes.top": describe_classes,
    "boxes.merge": describe_objects,
    "mask.read": describe_mask,
    "events.find": describe_events,
    "embedding.read": describe_embedding,
    "values.read": describe_values,
    "anomaly.read": describe_anomaly,
    "text.read": describe_text,
}
"""How to put an answer in words, by the operation that gave it."""
