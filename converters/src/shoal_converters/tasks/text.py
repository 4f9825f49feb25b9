"""What must be known of text generation: how does a text go on?"""

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
from shoal_converters.tasks.proposals import propose_generation
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class TextGeneration(JudgedByComparison):
    """Answers `{"text", "tokens"}`; expected `{"tokens"}` or `{"text"}`.

    The metric is the mean share of the expected tokens (of a text: words) that the answer begins with.
    """

    name: ClassVar[str] = "text"
    metric: ClassVar[str] = "share of tokens agreeing from the start"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """A text, or a list of tokens."""
        if isinstance(label, Mapping) and len(label) == 1 and set(label) <= {"text", "tokens"}:
            (label,) = label.values()
        if isinstance(label, str) and label.split():
            return {"text": label}
        if isinstance(label, list | tuple) and label and all(isinstance(one, int) and one >= 0 for one in label):
            return {"tokens": list(label)}
        raise BadData(f"label {str(label)[:100]!r}, expected a text of at least a word, or a list of tokens")

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        shares = np.array([self.rate(answer, wanted) for answer, wanted in zip(answers, expected, strict=True)])

        def measure(selection: Selection) -> float:
            return float(shares[selection].mean()) if selection.size else float("nan")

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("text.start", {"minimum_share": minimum})

    def agree(self, answer: Answer, other: Answer) -> float:
        if not other["tokens"]:
            return float(not answer["tokens"])
        return self.rate(answer, {"tokens": other["tokens"]})

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Lengths in tokens, and how many different ones each has."""
        return count_answers(
            len(answers),
            values={
                "tokens": (len(answer["tokens"]) for answer in answers),
                "different tokens": (len(set(answer["tokens"])) for answer in answers),
            },
        )

    def describe(self, answer: Mapping[str, Any]) -> str:
        said = str(answer["text"] if "text" in answer else " ".join(map(str, answer["tokens"])))
        return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_generation(inputs, outputs), post=(Operation("text.read"),))
