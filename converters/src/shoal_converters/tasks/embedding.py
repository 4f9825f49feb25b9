"""What must be known of embeddings: vectors that lie near one another where items are alike?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_name, parse_number
from shoal_converters.tasks.proposals import propose_any_input, propose_embedding
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

COUNTED_VALUES = 8
"""First values of a vector that are counted one by one: enough to see that vectors come to lie elsewhere."""

_Vectors = NDArray[np.float64]

_METRICS: Mapping[str, str] = {"retrieval": "recall@1", "cosine": "mean cosine"}


@dataclass(frozen=True, kw_only=True)
class Embedding(JudgedByComparison):
    """Answers `{"embedding": [...]}`; expected `{"group"}` for retrieval, `{"embedding": [...]}` for cosine.

    Retrieval: the share of items whose nearest other one (by cosine) is of their own group; items that are alone in
    their group are there to be confused with only. Cosine: the mean cosine to the expected vector, negative ones
    counted as 0.
    """

    name: ClassVar[str] = "embedding"

    judge: Literal["retrieval", "cosine"] = "retrieval"

    @property
    def metric(self) -> str:
        return _METRICS[self.judge]

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """Name of a group, or a vector, by what is judged."""
        if isinstance(label, Mapping) and len(label) == 1:
            (label,) = label.values()
        if self.judge == "retrieval":
            return {"group": parse_name(label, labels=labels)}
        if not isinstance(label, list | tuple) or not label:
            raise BadData(f"label {str(label)[:100]!r}, expected a vector")
        return {"embedding": [parse_number(value, what="embedding: value") for value in label]}

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        """An item keeps its neighbour in a selection: else a repeated one would be its own nearest."""
        if self.judge == "retrieval":
            each = _find_neighbours(answers, [wanted["group"] for wanted in expected])
        else:
            each = np.array([self.rate(answer, wanted) for answer, wanted in zip(answers, expected, strict=True)])

        def measure(selection: Selection) -> float:
            judged = each[selection]
            judged = judged[~np.isnan(judged)]
            return float(judged.mean()) if judged.size else float("nan")

        return Scored(items=len(answers), measure=measure)

    def rate(self, answer: Answer, expected: Expected) -> float:
        """1 for retrieval: a vector is right or wrong only beside others."""
        return 1.0 if "group" in expected else super().rate(answer, expected)

    def expect(self, answer: Answer, expected: Expected) -> Expected:
        return {"embedding": answer["embedding"]} if "group" in expected else expected

    def compare(self, minimum: float) -> Operation:
        return Operation("embedding.cosine", {"minimum_cosine": minimum})

    def agree(self, answer: Answer, other: Answer) -> float:
        return super().rate(answer, {"embedding": other["embedding"]})

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Lengths of the vectors, and their first values."""
        vectors = np.array([answer["embedding"] for answer in answers], dtype=np.float64).reshape(
            len(answers), -1 if answers else 0
        )
        values = {f"value {place}": vectors[:, place].tolist() for place in range(vectors.shape[1])[:COUNTED_VALUES]}
        return count_answers(len(answers), values={"norm": np.linalg.norm(vectors, axis=1).tolist()} | values)

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        """Group of each item and that of its nearest one."""
        if self.judge != "retrieval" or len(answers) < 2:
            return {}
        groups = [wanted["group"] for wanted in expected]
        return Counter((group, groups[nearest]) for group, nearest in zip(groups, _nearest(answers), strict=True))

    def describe(self, answer: Mapping[str, Any]) -> str:
        if "group" in answer:
            return str(answer["group"])
        values = answer["embedding"]
        return f"[{', '.join(f'{value:.3f}' for value in values[:3])}, …] of {len(values)}"

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_any_input(inputs, outputs), post=propose_embedding(inputs, outputs))


def _find_neighbours(answers: Sequence[Answer], groups: Sequence[str]) -> _Vectors:
    """1 where the nearest other item is of the same group, 0 where not, NaN where there is no other of the group."""
    sizes = Counter(groups)
    if len(groups) < 2:
        return np.full(len(groups), np.nan)
    return np.array(
        [
            float(groups[nearest] == group) if sizes[group] > 1 else np.nan
            for group, nearest in zip(groups, _nearest(answers), strict=True)
        ]
    )


def _nearest(answers: Sequence[Answer]) -> list[int]:
    """Place of the other item with the highest cosine; of equal ones the first."""
    vectors = np.array([answer["embedding"] for answer in answers], dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    nearest = []
    for place, direction in enumerate(directions):  # row by row: all pairs at once would take too much memory
        cosines = directions @ direction
        cosines[place] = -np.inf
        nearest.append(int(cosines.argmax()))
    return nearest
