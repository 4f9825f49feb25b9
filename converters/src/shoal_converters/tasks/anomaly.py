"""What must be known of anomaly detection: is an item unlike the usual ones?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import Places
from shoal_converters.tasks.proposals import propose_anomaly, propose_any_input
from shoal_converters.tasks.ranking import area_under_curve
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("normal", "usual", "good", "ok", "0", "false"), False),
    **dict.fromkeys(("anomalous", "anomaly", "abnormal", "bad", "defect", "1", "true"), True),
}
"""What data sets call them, where the recipe lists no labels."""


@dataclass(frozen=True, kw_only=True)
class Anomaly(JudgedByComparison):
    """Answers `{"score", "is_anomalous", "threshold"}`; expected `{"is_anomalous"}`.

    The metric looks at scores alone: how likely an anomalous item scores higher than a usual one.
    """

    name: ClassVar[str] = "anomaly"
    metric: ClassVar[str] = "ROC AUC"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """True, False, 1, 0, one of WORDS, or one of two labels in the recipe, of which the second is anomalous."""
        if isinstance(label, Mapping) and list(label) == ["is_anomalous"]:
            label = label["is_anomalous"]
        text = (str(int(label)) if isinstance(label, int | float) and label in (0, 1) else str(label)).lower()
        words = WORDS
        if len(labels) == 2:
            names = ("0", "1") if isinstance(labels, Places) else (labels[0].lower(), labels[1].lower())
            words = dict(zip(names, (False, True), strict=True))
        if text not in words:
            raise BadData(f"label {label!r}, expected one of {list(words)}")
        return {"is_anomalous": words[text]}

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        truth = np.array([wanted["is_anomalous"] for wanted in expected], dtype=bool)
        scores = np.array([answer["score"] for answer in answers], dtype=np.float64)

        def measure(selection: Selection) -> float:
            return area_under_curve(truth[selection], scores[selection])

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("anomaly.same", {"minimum_score": minimum})

    def agree(self, answer: Answer, other: Answer) -> float:
        """Whether both take the item for the same."""
        return float(answer["is_anomalous"] == other["is_anomalous"])

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """How many are taken for anomalous, and the scores."""
        return count_answers(
            len(answers),
            labels=Counter(map(self.describe, answers)),
            values={"score": (answer["score"] for answer in answers)},
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        pairs = zip(answers, expected, strict=True)
        return Counter((self.describe(wanted), self.describe(answer)) for answer, wanted in pairs)

    def describe(self, answer: Mapping[str, Any]) -> str:
        return "anomalous" if answer["is_anomalous"] else "usual"

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_any_input(inputs, outputs), post=propose_anomaly(inputs, outputs))
