"""What must be known of a kind of task, to measure a model that does it?

Answers and expected answers are those of the agent's operations: JSON objects. How right a single answer is, is judged
by the comparison of the task's golden cases, in the agent's own code; a task adds what concerns many answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

Expected = Parameters


Selection = NDArray[np.intp]
"""Places of items, in any order and with repeats."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Answers that were judged one by one, so that the metric of any selection of them is quickly had."""

    items: int
    measure: Callable[[Selection], float]
    """The metric over a selection; NaN where it isn't defined."""
    rights: NDArray[np.bool_] | None = None
    """Which answers are right, where the metric is their share."""
    resamples: int = 1_000
    """Selections that an interval may take; fewer where each is slow."""

    @property
    def value(self) -> float:
        """The metric over all."""
        return self.measure(np.arange(self.items))


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A first pre- and post-processing for a signature, for a person to correct."""

    pre: tuple[Operation, ...]
    post: tuple[Operation, ...]


class Task(Protocol):
    """One kind of task, with its options."""

    @property
    def name(self) -> str:
        """As a recipe has it."""

    @property
    def metric(self) -> str:
        """With its unit if it has one: `top-1 accuracy`, `mAP at IoU 0.5`. Higher is better, 1 is perfect."""

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """What a data set says of an item, as the answer expected of it.

        `label` is a string or number out of a folder's name or a table, or an object out of a JSON file or a loader.
        `labels`: those that the recipe lists.

        Raises:
            BadData: not a label of this task.
        """

    def measure(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> float:
        """The metric over as many answers as expected ones; NaN where it isn't defined (an AUC of one class)."""

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        """The same for any selection of the items, for intervals."""

    def rate(self, answer: Answer, expected: Expected) -> float:
        """How right one answer is, in [0, 1]: as the comparison of golden cases has it, where it takes `expected`."""

    def expect(self, answer: Answer, expected: Expected) -> Expected:
        """What a golden case expects of an item that the original answers in this way.

        That is what the set says, or the original's answer where the set's can't be compared with a single one.
        """

    def compare(self, minimum: float) -> Operation:
        """The comparison of golden cases that asks for a score of at least `minimum`, in [0, 1]."""

    def margin(self, answer: Answer, expected: Expected) -> float:
        """How far an answer is from being another: in [-1, 1], above 0 where right, near 0 at the boundary."""

    def agree(self, answer: Answer, other: Answer) -> float:
        """How far two answers say the same, in [0, 1]."""

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """The distribution of answers as JSON, in counts and mergeable histograms, to judge drift by later."""

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        """How often (expected label, answered label) occurred; empty for tasks without labels."""

    def describe(self, answer: Mapping[str, Any]) -> str:
        """An answer or an expected one in a few words."""

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        """Pre- and post-processing that fit a signature.

        Raises:
            BadRecipe: the signature isn't one of this task's.
        """
