"""What must be known of face detection: boxes, or whether there is a face at all?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from shoal_agent.front.operations.boxes import Box
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_object
from shoal_converters.tasks.ranking import area_under_curve
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("face", "faces", "1", "true"), True),
    **dict.fromkeys(("no-face", "no face", "none", "background", "0", "false"), False),
}
"""What data sets call pictures with and without a face."""


class _SeenFace(msgspec.Struct, frozen=True, kw_only=True):
    box: Box


class _SeenFaces(msgspec.Struct, frozen=True, kw_only=True):
    faces: list[_SeenFace]


@dataclass(frozen=True, kw_only=True)
class Faces(JudgedByComparison):
    """Answers `{"faces": [{"box", "score", ...}, ...]}`; expected `{"faces": [{"box"}, ...]}` or `{"is_face"}`.

    The metric is how well the score of a picture's best face tells pictures with a face from those without.
    """

    name: ClassVar[str] = "faces"
    metric: ClassVar[str] = "ROC AUC of the best face's score"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """One of WORDS, True, False, 1, 0, or the boxes of all faces: a list, `{"faces"}` or `{"objects"}`."""
        if isinstance(label, str | int | float):
            text = (str(int(label)) if isinstance(label, int | float) and label in (0, 1) else str(label)).lower()
            if text not in WORDS:
                raise BadData(f"label {label!r}, expected one of {list(WORDS)}, or boxes")
            return {"is_face": WORDS[text]}
        if isinstance(label, Mapping) and list(label) == ["is_face"]:
            return self.parse_label(label["is_face"], labels=labels)
        if isinstance(label, Mapping) and list(label) == ["objects"]:
            label = label["objects"]
        seen = parse_object({"faces": label} if isinstance(label, list | tuple) else label, _SeenFaces)
        document: Expected = msgspec.to_builtins(seen)
        return document

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        truth = np.array([_has_face(wanted) for wanted in expected], dtype=bool)
        scores = np.array([_best_score(answer) for answer in answers], dtype=np.float64)

        def measure(selection: Selection) -> float:
            return area_under_curve(truth[selection], scores[selection])

        return Scored(items=len(answers), measure=measure)

    def rate(self, answer: Answer, expected: Expected) -> float:
        """Where no boxes are known: whether a face was found just where there is one."""
        if "is_face" in expected:
            return float(bool(answer["faces"]) == expected["is_face"])
        return super().rate(answer, expected)

    def expect(self, answer: Answer, expected: Expected) -> Expected:
        """Where no boxes are known: those of the original, which were right in that there is a face."""
        if "is_face" not in expected:
            return expected
        return {"faces": [{"box": face["box"]} for face in answer["faces"]] if expected["is_face"] else []}

    def compare(self, minimum: float) -> Operation:
        return Operation("faces.iou", {"minimum_iou": minimum})

    def margin(self, answer: Answer, expected: Expected) -> float:
        """No more than the best face's score where one is to be found, as the score is what a threshold looks at."""
        margin = super().margin(answer, expected)
        return min(margin, _best_score(answer)) if margin > 0 and _has_face(expected) else margin

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Faces in a picture, and their scores."""
        return count_answers(
            len(answers),
            values={
                "faces": (len(answer["faces"]) for answer in answers),
                "score": (face["score"] for answer in answers for face in answer["faces"]),
            },
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        pairs = zip(answers, expected, strict=True)
        return Counter((_name(_has_face(wanted)), _name(bool(answer["faces"]))) for answer, wanted in pairs)

    def describe(self, answer: Mapping[str, Any]) -> str:
        if "is_face" in answer:
            return _name(answer["is_face"])
        scores = ", ".join(f"{face['score']:.2f}" for face in answer["faces"][:4] if "score" in face)
        count = len(answer["faces"])
        return f"{count or 'no'} {'face' if count <= 1 else 'faces'}" + (f" ({scores})" if scores else "")

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        raise BadRecipe(
            "task faces: anchors and key points can't be told from a signature; write image.decode and image.letterbox "
            "into pre, faces.decode and faces.merge into post"
        )


def _has_face(expected: Expected) -> bool:
    return bool(expected.get("is_face", expected.get("faces")))


def _best_score(answer: Answer) -> float:
    return max((float(face["score"]) for face in answer["faces"]), default=0.0)


def _name(has_face: bool) -> str:
    return "face" if has_face else "no face"
