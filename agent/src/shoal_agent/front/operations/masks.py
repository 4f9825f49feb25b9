"""Which part of a picture has which label, and is it as somebody drew it?

A mask is a grid of cells that covers the whole picture, row by row, as runs of equal cells.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from shoal_wire.encoding import Label

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Fraction, Name, read_shaped, take_only_call
from shoal_agent.front.operations.values import Answer, Outputs, Placement, Tensors, Verdict

MAX_MASK_SIDE = 1_024
"""Of an answer."""
MAX_RUNS = 16_384
"""Of an answer: 150 kB of JSON, which still fits a message. What has more is noise, or wants a smaller mask."""
MAX_DRAWN_SIDE = 16_384
MAX_DRAWN_CELLS = 1 << 26
MAX_DRAWN_RUNS = 1 << 18
"""Of an expected answer, which people or tools may have drawn more finely."""
DESCRIBED_LABELS = 4

MaskLabels = Annotated[tuple[Label, ...], Meta(min_length=2, max_length=1_000)]
Cells = NDArray[np.intp]
"""[height, width], places in a mask's labels."""


class ReadMask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mask.read`: the label of each cell of an output's grid, cut to what shows the picture.

    The mask is as fine as the output; where that is more than `maximum_side` cells, as fine as that, each cell with
    the label of the output's cell in its middle.
    """

    takes: ClassVar[Any] = Outputs[Placement]
    gives: ClassVar[type] = dict

    output: Name
    layout: Literal["nhwc", "nchw", "nhw"]
    """[1, height, width, channels], [1, channels, height, width] or [1, height, width]."""
    chosen_by: Literal["highest", "threshold", "index"]
    """highest: floats, a channel for each label, and the first of the highest counts. threshold: floats, one channel,
    with the second of two labels where it is `threshold` or more. index: whole numbers, one channel, places in
    `labels`."""
    threshold: Annotated[float, Meta(ge=-1e6, le=1e6)] | None = None
    """In the output's own unit: 0 is what is 0.5 after a sigmoid."""
    labels: MaskLabels
    maximum_side: Annotated[int, Meta(ge=1, le=MAX_MASK_SIDE)] = 256

    def __post_init__(self) -> None:
        if (self.threshold is not None) != (self.chosen_by == "threshold"):
            raise ValueError(f"threshold is {self.threshold}, expected a number just where chosen_by is 'threshold'")
        if self.chosen_by == "threshold" and len(self.labels) != 2:
            raise ValueError(f"a threshold tells 2 labels apart, found {len(self.labels)}")
        if self.chosen_by == "highest" and self.layout == "nhw":
            raise ValueError("layout 'nhw' has one channel, expected one for each label to choose the highest of")
        _check_unique(self.labels)

    def apply(self, outputs: Outputs[Placement]) -> Answer:
        """Give `{"mask": {"width", "height", "labels": [...], "runs": [[place in labels, cells], ...]}}`.

        Raises:
            BadOutput: several inferences; the output is missing, of another shape, not finite, or names no label; the
                mask has more than MAX_RUNS runs.
            BadPipeline: pre-processing cut a part of the picture off: nobody knows what is there.
        """
        channels = self._read(take_only_call(outputs))
        rows, columns = self._place(channels.shape[:2], outputs.context)
        cells = self._choose(channels[np.ix_(rows, columns)])
        runs = encode_runs(cells)
        if len(runs) > MAX_RUNS:
            raise BadOutput(
                f"output {self.output!r} makes a mask of {len(runs)} runs, expected at most {MAX_RUNS}; where it isn't "
                "noise, a smaller maximum_side helps"
            )
        height, width = cells.shape
        return {"mask": {"width": width, "height": height, "labels": list(self.labels), "runs": runs}}

    def _read(self, call: Tensors) -> NDArray[Any]:
        """[height, width, channels]."""
        count = len(self.labels) if self.chosen_by == "highest" else 1
        shape = {"nhwc": (1, -1, -1, count), "nchw": (1, count, -1, -1), "nhw": (1, -1, -1)}[self.layout]
        kinds: Literal["iu", "f"] = "iu" if self.chosen_by == "index" else "f"
        output = read_shaped(call, name=self.output, shape=shape, kinds=kinds)
        if not output.size:
            raise BadOutput(f"output {self.output!r} has the shape {list(output.shape)}, expected no dimension of 0")
        image: NDArray[Any] = output[0]
        if self.layout == "nchw":
            return image.transpose(1, 2, 0)
        return image if self.layout == "nhwc" else image[:, :, np.newaxis]

    def _place(self, size: tuple[int, ...], placement: Placement) -> tuple[Cells, Cells]:
        """Rows and columns of the output that the mask is made of."""
        if min(placement.left, placement.top) < 0 or max(placement.width, placement.height) > 1:
            raise BadPipeline("mask.read: image.fit cut the picture, expected how to be 'stretch' or 'letterbox'")
        spans = ((size[0], placement.top, placement.height), (size[1], placement.left, placement.width))
        rows, columns = (
            _sample(cells, first=first, share=share, count=min(max(1, round(share * cells)), self.maximum_side))
            for cells, first, share in spans
        )
        return rows, columns

    def _choose(self, channels: NDArray[Any]) -> Cells:
        if self.chosen_by == "highest":
            return np.asarray(channels.argmax(axis=2))
        if self.chosen_by == "threshold":
            return (channels[:, :, 0] >= self.threshold).astype(np.intp)
        least, most = channels.min(), channels.max()
        if least < 0 or most >= len(self.labels):
            raise BadOutput(
                f"output {self.output!r} holds {least} to {most}, expected places in {len(self.labels)} labels"
            )
        return channels[:, :, 0].astype(np.intp)


class Mask(msgspec.Struct, frozen=True, kw_only=True):
    """A mask as it is written in answers and golden cases."""

    width: Annotated[int, Meta(ge=1, le=MAX_DRAWN_SIDE)]
    height: Annotated[int, Meta(ge=1, le=MAX_DRAWN_SIDE)]
    labels: MaskLabels
    runs: Annotated[
        tuple[tuple[Annotated[int, Meta(ge=0, le=999)], Annotated[int, Meta(ge=1, le=MAX_DRAWN_CELLS)]], ...],
        Meta(min_length=1, max_length=MAX_DRAWN_RUNS),
    ]

    def __post_init__(self) -> None:
        _check_unique(self.labels)
        covered, cells = sum(length for _, length in self.runs), self.width * self.height
        if cells > MAX_DRAWN_CELLS:
            raise ValueError(f"a mask of {cells} cells, expected at most {MAX_DRAWN_CELLS}")
        if covered != cells:
            raise ValueError(f"runs cover {covered} cells, expected {self.width} x {self.height}")
        highest = max(label for label, _ in self.runs)
        if highest >= len(self.labels):
            raise ValueError(f"a run has label {highest}, expected a place in {len(self.labels)} labels")

    @property
    def cells(self) -> Cells:
        """The grid itself."""
        labels, lengths = np.array(self.runs, dtype=np.intp).T
        return np.repeat(labels, lengths).reshape(self.height, self.width)


class DrawnMask(msgspec.Struct, frozen=True, kw_only=True):
    """What `mask.read` answers, and a golden case of `mask.iou` expects: `{"mask": {...}}`."""

    mask: Mask


class MaskIou(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mask.iou`: how far the areas of each label cover one another.

    The score is the mean of intersection over union over the labels that either mask has somewhere.
    """

    minimum_iou: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `mask.read` by the mask that was drawn.

        Raises:
            BadPipeline: `expected` isn't a mask.
        """
        drawn = parse_mask(expected, what="expected answer")
        ratios = measure_label_ious(parse_mask(answer, what="answer"), drawn=drawn)
        score = sum(ratios.values()) / len(ratios)
        worst = min(ratios, key=lambda label: ratios[label])
        return Verdict(
            passed=score >= self.minimum_iou,
            score=score,
            words=(
                f"mean intersection over union {score:.3f}, at least {self.minimum_iou:g} wanted; least of "
                f"{len(ratios)} labels: {worst} {ratios[worst]:.3f}"
            ),
        )


def measure_label_ious(found: Mask, *, drawn: Mask) -> dict[str, float]:
    """Intersection over union for each label that either mask has somewhere, by name.

    Where they have different sizes, both cover the same picture: each cell of `drawn` is compared with the cell of
    `found` that is at its middle.
    """
    names = sorted({*found.labels, *drawn.labels})
    rows = _sample(found.height, first=0.0, share=1.0, count=drawn.height)
    columns = _sample(found.width, first=0.0, share=1.0, count=drawn.width)
    ones = np.array([names.index(label) for label in found.labels])[found.cells[np.ix_(rows, columns)]]
    others = np.array([names.index(label) for label in drawn.labels])[drawn.cells]
    common = np.bincount(ones[ones == others], minlength=len(names))
    union = np.bincount(ones.ravel(), minlength=len(names)) + np.bincount(others.ravel(), minlength=len(names)) - common
    return {name: float(common[at] / union[at]) for at, name in enumerate(names) if union[at]}


def encode_runs(cells: Cells) -> list[list[int]]:
    """Runs of equal cells, row by row: [[value, length], ...]. A run may go on in the next row."""
    line = cells.ravel()
    starts = np.flatnonzero(np.concatenate(([True], line[1:] != line[:-1])))
    lengths = np.diff(np.append(starts, line.size))
    runs: list[list[int]] = np.stack([line[starts], lengths], axis=1).tolist()
    return runs


def parse_mask(value: object, *, what: str) -> Mask:
    """Read `{"mask": {...}}`.

    Raises:
        BadPipeline: it isn't one; the message begins with `what`.
    """
    try:
        return msgspec.convert(value, type=DrawnMask).mask
    except msgspec.ValidationError as error:
        raise BadPipeline(f"mask.iou: {what}: {error}") from None


def describe_mask(answer: Answer) -> str:
    """Put the answer of `mask.read` in words: `road 54 %, sky 31 %, car 15 %`, by area."""
    mask = answer["mask"]
    areas = dict.fromkeys(range(len(mask["labels"])), 0)
    for label, length in mask["runs"]:
        areas[label] += length
    cells = mask["width"] * mask["height"]
    largest = sorted((label for label in areas if areas[label]), key=lambda label: -areas[label])
    said = [f"{mask['labels'][label]} {100 * areas[label] / cells:.0f} %" for label in largest[:DESCRIBED_LABELS]]
    return ", ".join(said) + (" …" if len(largest) > DESCRIBED_LABELS else "")


def _sample(cells: int, *, first: float, share: float, count: int) -> Cells:
    """Which of `cells` in a row are in the middles of `count` equal parts of a share of it, that begins at `first`."""
    middles = first + share * (np.arange(count) + 0.5) / count
    return np.clip(np.floor(middles * cells), 0, cells - 1).astype(np.intp)


def _check_unique(labels: tuple[str, ...]) -> None:
    if len(set(labels)) != len(labels):
        raise ValueError(f"{len(labels)} labels, {len(set(labels))} of them different, expected no two the same")
