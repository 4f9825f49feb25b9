"""What must be known of classification: one label an item?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_name
from shoal_converters.tasks.proposals import propose_any_input, propose_scores
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Classification(JudgedByComparison):
    """Answers `{"classes": [{"label", "score"}, ...]}`, best first; expected `{"label"}`."""

    name: ClassVar[str] = "classification"
    metric: ClassVar[str] = "top-1 accuracy"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """A label, see `parse_name`."""
        return {"label": parse_name(label, labels=labels)}

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        pairs = zip(answers, expected, strict=True)
        rights = np.array([_first(answer) == wanted["label"] for answer, wanted in pairs], dtype=bool)

        def measure(selection: Selection) -> float:
            return float(rights[selection].mean()) if selection.size else float("nan")

        return Scored(items=len(rights), measure=measure, rights=rights)

    def compare(self, minimum: float) -> Operation:
        return Operation("classes.first", {"minimum_score": minimum})

    def margin(self, answer: Answer, expected: Expected) -> float:
        """Score of the right label less the highest of another; 0 for one that isn't among the answer's."""
        right = max((one["score"] for one in answer["classes"] if one["label"] == expected["label"]), default=0.0)
        other = max((one["score"] for one in answer["classes"] if one["label"] != expected["label"]), default=0.0)
        return float(np.clip(right - other, -1.0, 1.0))

    def agree(self, answer: Answer, other: Answer) -> float:
        """Whether the first labels are the same."""
        return float(_first(answer) == _first(other))

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """First labels, and the scores of each answer's first two."""
        return count_answers(
            len(answers),
            labels=Counter(map(_first, answers)),
            values={
                "score": (answer["classes"][0]["score"] for answer in answers),
                "second score": (answer["classes"][1]["score"] for answer in answers if len(answer["classes"]) > 1),
            },
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        return Counter((wanted["label"], _first(answer)) for answer, wanted in zip(answers, expected, strict=True))

    def describe(self, answer: Mapping[str, Any]) -> str:
        if "label" in answer:
            return str(answer["label"])
        return ", ".join(f"{one['label']} {one['score']:.2f}" for one in answer["classes"][:_SHOWN])

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        post = (propose_scores(outputs, labels=labels), Operation("classes.top", {"labels": list(labels)}))
        return Proposal(pre=propose_any_input(inputs, outputs), post=post)


def _first(answer: Answer) -> str:
    return str(answer["classes"][0]["label"])
