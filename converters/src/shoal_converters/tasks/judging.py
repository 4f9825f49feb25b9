"""What do tasks have in common whose answers a comparison of the agent judges?"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from shoal_agent.front.operations.pipeline import compare
from shoal_agent.front.operations.values import Answer
from shoal_wire.manifest import Operation

from shoal_converters.tasks.task import Expected, Scored


class JudgedByComparison(ABC):
    """The part of a Task that follows from its comparison and from its score of a selection."""

    @abstractmethod
    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored: ...

    @abstractmethod
    def compare(self, minimum: float) -> Operation: ...

    def measure(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> float:
        return self.score(answers, expected).value

    def rate(self, answer: Answer, expected: Expected) -> float:
        return compare(self.compare(0.0), answer=answer, expected=expected).score

    def expect(self, answer: Answer, expected: Expected) -> Expected:
        return expected

    def margin(self, answer: Answer, expected: Expected) -> float:
        """From -1 to 1 as the rating goes from 0 to 1: an answer that is half right is at the boundary."""
        return 2 * self.rate(answer, expected) - 1

    def agree(self, answer: Answer, other: Answer) -> float:
        return self.rate(answer, other)

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        return {}
