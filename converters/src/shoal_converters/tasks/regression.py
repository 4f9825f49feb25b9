"""What must be known of regression: numbers by name?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_number
from shoal_converters.tasks.proposals import propose_any_input, propose_values
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

ONLY = "value"
"""Name of the only number where a recipe lists no labels."""
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Regression(JudgedByComparison):
    """Answers and expected `{"values": {name: number, ...}}`; the recipe's labels are the names.

    The metric is the coefficient of determination, the mean over the names.
    """

    name: ClassVar[str] = "regression"
    metric: ClassVar[str] = "R²"

    scale: Annotated[float, Meta(gt=0)] = 1.0
    """Error, in the numbers' own unit, at which an answer is all wrong."""

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """A number, numbers in the order of the names, or numbers by name."""
        names = tuple(labels) or (ONLY,)
        if isinstance(label, Mapping):
            label = label["values"] if list(label) == ["values"] else label
            by_name = dict(label) if isinstance(label, Mapping) else {}
        elif isinstance(label, list | tuple):
            by_name = dict(zip(names, label, strict=False)) if len(label) == len(names) else {}
        else:
            by_name = {names[0]: label}
        if set(by_name) != set(names):
            raise BadData(f"label {str(label)[:100]!r}, expected numbers for {list(names)}")
        return {"values": {name: parse_number(by_name[name], what=f"{name}:") for name in names}}

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        names = sorted({name for wanted in expected for name in wanted["values"]})
        known = np.array([[wanted["values"][name] for name in names] for wanted in expected])
        found = np.array([[answer["values"][name] for name in names] for answer in answers])

        def measure(selection: Selection) -> float:
            from sklearn.metrics import r2_score  # takes a second

            if selection.size < 2 or (np.ptp(known[selection], axis=0) == 0).any():
                return float("nan")
            return float(r2_score(known[selection], found[selection]))

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("values.near", {"scale": self.scale, "minimum_score": minimum})

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Each number."""
        names = sorted({name for answer in answers for name in answer["values"]})
        return count_answers(
            len(answers), values={name: [answer["values"][name] for answer in answers] for name in names}
        )

    def describe(self, answer: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in list(answer["values"].items())[:_SHOWN])

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(
            pre=propose_any_input(inputs, outputs), post=propose_values(outputs, labels=tuple(labels) or (ONLY,))
        )
