"""Which rows of a batch are new, given what was committed before?

Go-back-N (Tanenbaum and Wetherall, Computer Networks, section 3.4.2): the receiver takes a stream in order only. What
it has already is skipped, what doesn't follow is left out, and either way it says how far it has come. A sender that
goes on from there has, in the end, each row stored exactly once, whatever was repeated, reordered or lost between.
"""

from typing import NamedTuple

from shoal_wire.errors import Malformed
from shoal_wire.messages import Batch


class Advance(NamedTuple):
    """What to commit of a batch. Sequence numbers start at 1; a watermark of 0 means that nothing was committed."""

    skip: int
    """How many of the batch's rows were committed before: the rest are new, unless `is_gap`."""
    lost: int
    """How many sequence numbers the device declares lost that weren't committed or counted before."""
    watermark: int
    """The highest sequence number up to which all is committed or known to be lost, after this batch."""
    is_gap: bool
    """The batch starts above what comes next: nothing of it may be committed."""


def advance(batch: Batch, *, watermark: int) -> Advance:
    """How a batch moves the watermark of its stream.

    Raises:
        Malformed: the rows that the batch declares lost aren't those right before its first one.
    """
    start = batch.first
    if batch.lost is not None:
        if not batch.lost.first <= batch.lost.last == batch.first - 1:
            raise Malformed(
                f"batch: declares {batch.lost.first} to {batch.lost.last} lost, expected them to end right before its "
                f"first row, {batch.first}"
            )
        start = batch.lost.first
    rows = len(batch.rows)
    if start > watermark + 1:
        return Advance(skip=rows, lost=0, watermark=watermark, is_gap=True)
    lost = max(0, batch.first - 1 - max(watermark, start - 1))
    skip = min(rows, max(0, watermark + 1 - batch.first))
    return Advance(skip=skip, lost=lost, watermark=max(watermark, batch.first - 1 + rows), is_gap=False)
