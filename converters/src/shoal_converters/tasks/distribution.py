"""How are many answers told in few numbers, so that others can be held against them later?

It goes into a manifest as `reference_output`. A board counts its own answers in the same way; counts and histograms of
boards, days and this one are added up label by label and bin by bin (see `shoal_wire.histogram`).
"""

from collections.abc import Iterable, Mapping

import msgspec
from shoal_wire.encoding import Parameters
from shoal_wire.histogram import Histogram, Sketch

MAX_LABELS = 1_000
MAX_HISTOGRAMS = 32
BELOW = " below 0"


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How answers are spread."""

    answers: int
    labels: dict[str, int] = {}
    """How often each label was answered; at most MAX_LABELS, the most frequent ones."""
    histograms: dict[str, Histogram] = {}
    """Of scores, sizes or values, by their name; at most MAX_HISTOGRAMS, the first ones. A histogram counts values of
    at least 0, so those below it are counted in one of the same name with " below 0" after it, without their sign."""


def count_answers(
    answers: int, *, labels: Mapping[str, int] | None = None, values: Mapping[str, Iterable[float]] | None = None
) -> Parameters:
    """A Distribution as JSON."""
    frequent = sorted((labels or {}).items(), key=lambda item: (-item[1], item[0]))[:MAX_LABELS]
    histograms: dict[str, Histogram] = {}
    for name, numbers in (values or {}).items():
        sketches = {name: Sketch(), name + BELOW: Sketch()}
        for number in numbers:
            sketches[name if number >= 0 else name + BELOW].add(abs(number))
        counted = {key: sketch.histogram() for key, sketch in sketches.items() if sketch.count}
        if len(histograms) + len(counted) > MAX_HISTOGRAMS:
            break
        histograms |= counted
    counts = Distribution(answers=answers, labels=dict(sorted(frequent)), histograms=histograms)
    document: Parameters = msgspec.json.decode(msgspec.json.encode(counts))
    return document
