"""Which class does a model say an item is of, and is it the one that was expected?"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from shoal_wire.encoding import Label

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Activation, Fraction, Name, Numbers, activate, check_scores, read_row
from shoal_agent.front.operations.values import Answer, Outputs, Scores, Tensors, Verdict

MAX_CLASSES = 65_536
DESCRIBED_CLASSES = 3

Labels = Annotated[tuple[Label, ...], Meta(min_length=1, max_length=MAX_CLASSES)]


class ReadScores(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scores.read`: a score for each class, the mean over all inferences of one item.

    Every inference has its activation before the mean is taken, so that each weighs the same.
    """

    takes: ClassVar[Any] = Outputs
    gives: ClassVar[type] = Scores

    output: Name
    """float[classes], with dimensions of 1 wherever they may be: [1, classes], [1, classes, 1, 1]."""
    activation: Activation
    is_binary: bool = False
    """The output is one value, how likely the second of two classes is."""

    def __post_init__(self) -> None:
        if self.is_binary and self.activation == "softmax":
            raise ValueError("a softmax of one value is always 1: with is_binary, activation is sigmoid or none")

    def apply(self, outputs: Outputs[Any]) -> Scores:
        """Give float64[classes]; [1 - p, p] where `is_binary`.

        Raises:
            BadOutput: no inference, an output is missing, of another shape, not finite, or (with the activation
                "none") no score.
        """
        if not outputs.calls:
            raise BadOutput("outputs of 0 inferences, expected 1 or more")
        read = [self._read(call) for call in outputs.calls]
        sizes = sorted({values.size for values in read})
        if len(sizes) > 1:
            raise BadOutput(f"output {self.output!r} has {sizes} values in different inferences, expected the same")
        if self.is_binary and sizes != [1]:
            raise BadOutput(f"output {self.output!r} has {sizes[0]} values, expected 1 of a binary model")
        values: Numbers = np.mean(read, axis=0)
        return Scores(values=np.array([1 - values[0], values[0]]) if self.is_binary else values)

    def _read(self, call: Tensors) -> Numbers:
        row = read_row(call, name=self.output, at_most=MAX_CLASSES)
        return check_scores(activate(row, activation=self.activation), name=self.output)


class TopClasses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`classes.top`: the classes with the highest scores, of equal ones the first."""

    takes: ClassVar[type] = Scores
    gives: ClassVar[type] = dict

    labels: Labels
    """Of all classes, in the order of the scores. Two may be the same: ImageNet has two cranes."""
    count: Annotated[int, Meta(ge=1, le=1_000)] = 5

    def apply(self, scores: Scores) -> Answer:
        """Give `{"classes": [{"label", "score"}, ...]}`, at most `count`, the best first.

        Raises:
            BadOutput: another number of scores than of labels.
        """
        if len(scores.values) != len(self.labels):
            raise BadOutput(f"{len(scores.values)} scores, expected {len(self.labels)}: one for each label")
        best = np.argsort(-scores.values, kind="stable")[: self.count]
        return {"classes": [{"label": self.labels[at], "score": round(float(scores.values[at]), 6)} for at in best]}


class NamedClass(msgspec.Struct, frozen=True, kw_only=True):
    """One class of an answer."""

    label: Label
    score: Fraction


class NamedClasses(msgspec.Struct, frozen=True, kw_only=True):
    """What `classes.top` answers."""

    classes: Annotated[tuple[NamedClass, ...], Meta(min_length=1, max_length=1_000)]


class ExpectedClass(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `classes.first` expects: `{"label": "espresso"}`."""

    label: Label


class ClassesFirst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`classes.first`: the expected class comes first. The score is the class's own, or 0 where another is first."""

    minimum_score: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `classes.top` by the right label.

        Raises:
            BadPipeline: `expected` has no label, or the answer isn't one of classes.
        """
        try:
            wanted = msgspec.convert(expected, type=ExpectedClass).label
            first = msgspec.convert(answer, type=NamedClasses).classes[0]
        except msgspec.ValidationError as error:
            raise BadPipeline(f"classes.first: {error}") from None
        if first.label != wanted:
            return Verdict(
                passed=False, score=0.0, words=f"{first.label!r} is first ({first.score:.3f}), {wanted!r} expected"
            )
        return Verdict(
            passed=first.score >= self.minimum_score,
            score=first.score,
            words=f"{wanted!r} is first with {first.score:.3f}, at least {self.minimum_score:g} wanted",
        )


def describe_classes(answer: Answer) -> str:
    """Put the answer of `classes.top` in words: `espresso 0.78, cup 0.11, eggnog 0.02`."""
    return ", ".join("{label} {score:.2f}".format(**one) for one in answer["classes"][:DESCRIBED_CLASSES])
