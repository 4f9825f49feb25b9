"""Is an item unlike those that a model was trained on?"""

from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec
import numpy as np

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Finite, Fraction, Name, OptionalName, read_output, take_only_call
from shoal_agent.front.operations.values import Answer, Outputs, Tensors, Verdict


@runtime_checkable
class KeepsInputs(Protocol):
    """A context of pre-processing that says what the model was fed."""

    @property
    def fed(self) -> Tensors:
        """Inputs of the first call."""


class ReadAnomaly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`anomaly.read`: how unusual an item is, and whether that is too much.

    The score is the output's only value or, where `input` is named, the mean squared difference between the output and
    that input: an autoencoder fails to give back what it has never seen (Hawkins et al., "Outlier Detection Using
    Replicator Neural Networks", DaWaK 2002).
    """

    takes: ClassVar[Any] = Outputs
    gives: ClassVar[type] = dict

    output: Name
    input: OptionalName = ""
    """Of an autoencoder, and of the output's shape; empty: the output is the score."""
    is_negated: bool = False
    """The score is the output's value times -1: scikit-learn's decision functions fall where an item is unusual."""
    threshold: Finite
    """An item is anomalous from this score on."""

    def __post_init__(self) -> None:
        if self.input and self.is_negated:
            raise ValueError("is_negated: a difference from the input is always higher where an item is unusual")

    def apply(self, outputs: Outputs[Any]) -> Answer:
        """Give `{"score": number, "is_anomalous": bool, "threshold": number}`; a higher score is more unusual.

        Raises:
            BadOutput: the output is missing, of another shape, or not finite.
            BadPipeline: pre-processing doesn't keep the input.
        """
        output = read_output(take_only_call(outputs), name=self.output)
        if self.input:
            score = self._measure_error(output, context=outputs.context)
        elif output.size != 1:
            raise BadOutput(f"output {self.output!r} has {output.size} values, expected 1, the score")
        else:
            score = float(output.reshape(-1)[0]) * (-1 if self.is_negated else 1)
        return {"score": score, "is_anomalous": score >= self.threshold, "threshold": self.threshold}

    def _measure_error(self, output: np.ndarray[Any, np.dtype[np.float64]], *, context: object) -> float:
        fed = context.fed if isinstance(context, KeepsInputs) else {}
        if self.input not in fed:
            raise BadPipeline(f"anomaly.read: pre-processing keeps no input {self.input!r}, found {sorted(fed)}")
        given = fed[self.input]
        if given.shape != output.shape:
            raise BadOutput(
                f"output {self.output!r} has the shape {list(output.shape)}, expected that of the input "
                f"{self.input!r}, {list(given.shape)}"
            )
        with np.errstate(over="ignore"):
            error = float(np.mean(np.square(output - given)))
        if not np.isfinite(error):
            raise BadOutput(f"output {self.output!r} is too far from the input to be measured")
        return error


class JudgedItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `anomaly.same` expects: `{"is_anomalous": bool}`."""

    is_anomalous: bool


class AnomalyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `anomaly.read` answers."""

    score: float
    threshold: float
    is_anomalous: bool


class AnomalySame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`anomaly.same`: an item is taken for anomalous, or not, as was expected.

    The score is `(1 + d) / 2`, where d = |score - threshold| / (|score| + |threshold|) of the answer, in [0, 1], and
    below 0 where the answer is wrong: 0.5 at the threshold, 0.67 at twice the threshold or at half of it, 1 far away.
    """

    minimum_score: Fraction = 0.0

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `anomaly.read`.

        Raises:
            BadPipeline: `expected` doesn't say whether the item is anomalous.
        """
        try:
            wanted = msgspec.convert(expected, type=JudgedItem).is_anomalous
            found = msgspec.convert(answer, type=AnomalyAnswer)
        except msgspec.ValidationError as error:
            raise BadPipeline(f"anomaly.same: {error}") from None
        agrees = found.is_anomalous == wanted
        size = abs(found.score) + abs(found.threshold)
        distance = abs(found.score - found.threshold) / size if size else 0.0
        score = (1 + (distance if agrees else -distance)) / 2
        return Verdict(
            passed=agrees and score >= self.minimum_score,
            score=score,
            words=(
                f"{describe_anomaly(answer)}, {_name(wanted)} expected; score {score:.3f}, at least "
                f"{self.minimum_score:g} wanted"
            ),
        )


def describe_anomaly(answer: Answer) -> str:
    """Put the answer of `anomaly.read` in words: `anomalous (0.0412, anomalous from 0.03 on)`."""
    return "{} ({score:.4g}, anomalous from {threshold:.4g} on)".format(_name(answer["is_anomalous"]), **answer)


def _name(is_anomalous: bool) -> str:
    return "anomalous" if is_anomalous else "usual"
