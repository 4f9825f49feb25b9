"""What must be known of segmentation: a label for each pixel?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.masks import Cells, encode_runs, parse_mask
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadData
from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.proposals import propose_mask, propose_picture
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

MAX_SHARES = 16
"""Labels whose share of a picture is counted."""
_SHOWN = 4

_PairCounts = NDArray[np.int64]
"""[labels, labels]: pixels by expected and answered label."""


@dataclass(frozen=True, kw_only=True)
class Segmentation(JudgedByComparison):
    """Answers and expected `{"mask": {"width", "height", "labels": [...], "runs": [[place of label, length], ...]}}`.

    The metric is the mean over labels of intersection over union, with pixels of all pictures counted together, over
    labels that are in either.
    """

    name: ClassVar[str] = "segmentation"
    metric: ClassVar[str] = "mean IoU"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """A picture of places in the list of labels, whole numbers[height, width], or such a mask in runs."""
        if isinstance(label, np.ndarray):
            return {"mask": _encode(label, labels=labels)}
        try:
            mask = parse_mask(label, what="label")
        except BadPipeline as error:
            raise BadData(str(error)) from None
        unknown = sorted(set(mask.labels) - set(labels)) if labels else []
        if unknown:
            raise BadData(f"mask: labels {unknown}, expected those of {list(labels)}")
        return {"mask": msgspec.json.decode(msgspec.json.encode(mask))}

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        names = _names([*answers, *expected])
        pairs = [_count(answer, wanted, names=names) for answer, wanted in zip(answers, expected, strict=True)]
        common = np.array([np.diagonal(counts) for counts in pairs]).reshape(len(pairs), len(names))
        sides = np.array([counts.sum(axis=0) + counts.sum(axis=1) for counts in pairs]).reshape(len(pairs), len(names))

        def measure(selection: Selection) -> float:
            intersection, both = common[selection].sum(axis=0), sides[selection].sum(axis=0)
            present = both > 0
            if not present.any():
                return float("nan")
            return float((intersection[present] / (both - intersection)[present]).mean())

        return Scored(items=len(answers), measure=measure)

    def compare(self, minimum: float) -> Operation:
        return Operation("mask.iou", {"minimum_iou": minimum})

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """In how many answers each label is, and what share of the picture the labels have (where they are)."""
        shares: dict[str, list[float]] = {name: [] for name in _names(answers)}
        for answer in answers:
            for name, share in _shares(answer):
                shares[name].append(share)
        return count_answers(
            len(answers),
            labels={name: len(numbers) for name, numbers in shares.items() if numbers},
            values={f"share of {name}": numbers for name, numbers in list(shares.items())[:MAX_SHARES]},
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        """In pixels."""
        names = _names([*answers, *expected])
        total: _PairCounts = np.zeros((len(names), len(names)), dtype=np.int64)
        for answer, wanted in zip(answers, expected, strict=True):
            total += _count(answer, wanted, names=names)
        return Counter({(names[row], names[column]): int(total[row, column]) for row, column in np.argwhere(total)})

    def describe(self, answer: Mapping[str, Any]) -> str:
        shares = sorted(_shares(answer), key=lambda share: -share[1])
        return ", ".join(f"{name} {share:.0%}" for name, share in shares[:_SHOWN])

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_picture(inputs), post=propose_mask(outputs, labels=labels))


def _encode(pixels: NDArray[Any], *, labels: Sequence[str]) -> Parameters:
    if pixels.ndim != 2 or not pixels.size or pixels.dtype.kind not in "iub":
        raise BadData(f"mask: {pixels.dtype}{list(pixels.shape)}, expected whole numbers[height, width]")
    highest = int(pixels.max())
    if pixels.min() < 0 or highest >= len(labels):
        found = np.unique(pixels[(pixels < 0) | (pixels >= len(labels))]).tolist()
        raise BadData(f"mask: values {found[:10]}, expected places in the list of {len(labels)} labels")
    runs = encode_runs(pixels.astype(np.intp))
    return {"width": pixels.shape[1], "height": pixels.shape[0], "labels": list(labels), "runs": runs}


def _names(said: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for one in said for name in one["mask"]["labels"]})


def _count(answer: Answer, expected: Expected, *, names: Sequence[str]) -> _PairCounts:
    """Pixels of one picture by their labels, at the size of the expected mask."""
    wanted, found = parse_mask(expected, what="expected answer"), parse_mask(answer, what="answer")
    rows, columns = wanted.cells, found.cells
    if rows.shape != columns.shape:
        columns = _resize(columns, to=rows.shape)
    places = {name: place for place, name in enumerate(names)}
    by_row = np.array([places[name] for name in wanted.labels])[rows]
    by_column = np.array([places[name] for name in found.labels])[columns]
    counts = np.bincount((by_row * len(names) + by_column).reshape(-1), minlength=len(names) ** 2)
    return np.asarray(counts, dtype=np.int64).reshape(len(names), len(names))


def _resize(cells: Cells, *, to: tuple[int, ...]) -> Cells:
    """Each cell takes the label of that in whose area its middle lies."""
    rows, columns = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in zip(to, cells.shape, strict=True))
    return cells[np.ix_(rows, columns)]


def _shares(said: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    mask = said["mask"]
    runs = np.array(mask["runs"], dtype=np.int64).reshape(-1, 2)
    counts = np.bincount(runs[:, 0], weights=runs[:, 1], minlength=len(mask["labels"]))
    for name, count in zip(mask["labels"], counts, strict=True):
        if count:
            yield name, float(count / runs[:, 1].sum())
