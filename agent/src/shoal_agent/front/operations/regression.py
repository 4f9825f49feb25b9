"""Which quantities does a model estimate, and how near are they to the measured ones?"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Finite, Fraction, Name, read_output, take_only_call
from shoal_agent.front.operations.values import Answer, Outputs, Verdict

MAX_VALUES = 4_096
DESCRIBED_VALUES = 8

ValueName = Annotated[str, Meta(min_length=1, max_length=200)]
PerValue = Annotated[tuple[Finite, ...], Meta(max_length=MAX_VALUES)]


class ReadValues(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`values.read`: each value of an output by its name, as `value x scale + offset`.

    The output has as many values as there are names, in their order, whatever its shape.
    """

    takes: ClassVar[Any] = Outputs
    gives: ClassVar[type] = dict

    output: Name
    names: Annotated[tuple[ValueName, ...], Meta(min_length=1, max_length=MAX_VALUES)]
    """With their units: `temperature_c`."""
    scale: PerValue = ()
    """One for each name, or none: 1."""
    offset: PerValue = ()
    """One for each name, or none: 0."""

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError("names: one is given twice")
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if len(values) not in (0, len(self.names)):
                raise ValueError(f"{name} has {len(values)} values, expected one for each of {len(self.names)} names")

    def apply(self, outputs: Outputs[Any]) -> Answer:
        """Give `{"values": {name: number, ...}}`.

        Raises:
            BadOutput: the output is missing, not finite, or has another number of values.
        """
        found = read_output(take_only_call(outputs), name=self.output).reshape(-1)
        if found.size != len(self.names):
            raise BadOutput(f"output {self.output!r} has {found.size} values, expected {len(self.names)}")
        with np.errstate(over="ignore"):
            values = found * np.array(self.scale or 1.0) + np.array(self.offset or 0.0)
        if not np.isfinite(values).all():
            raise BadOutput(f"output {self.output!r}: a value is too large to be scaled")
        return {"values": dict(zip(self.names, values.tolist(), strict=True))}


class MeasuredValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `values.near` expects: `{"values": {name: number, ...}}`."""

    values: Annotated[dict[ValueName, float], Meta(min_length=1, max_length=MAX_VALUES)]


class ValuesNear(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`values.near`: the mean over the expected names of max(0, 1 - |difference| / scale).

    A name that the answer lacks counts 0; what wasn't expected isn't judged.
    """

    scale: Annotated[float, Meta(gt=0, le=1e30)]
    """Difference at which a value is as good as missing, in its own unit."""
    minimum_score: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `values.read` by measured values.

        Raises:
            BadPipeline: `expected` isn't an object of numbers.
        """
        measured = _parse_values(expected, what="expected answer")
        found = _parse_values(answer, what="answer")
        scores = {
            name: max(0.0, 1 - abs(found[name] - value) / self.scale) if name in found else 0.0
            for name, value in measured.items()
        }
        score = sum(scores.values()) / len(scores)
        worst = min(scores, key=lambda name: scores[name])
        said = f"{found[worst]:g}" if worst in found else "missing"
        return Verdict(
            passed=score >= self.minimum_score,
            score=score,
            words=(
                f"score {score:.3f}, at least {self.minimum_score:g} wanted; farthest off is {worst}: {said}, "
                f"{measured[worst]:g} expected"
            ),
        )


def describe_values(answer: Answer) -> str:
    """Put the answer of `values.read` in words: `temperature_c 21.4, humidity 0.61`."""
    values = answer["values"]
    shown = ", ".join(f"{name} {value:.4g}" for name, value in list(values.items())[:DESCRIBED_VALUES])
    return shown + (" …" if len(values) > DESCRIBED_VALUES else "")


def _parse_values(value: object, *, what: str) -> dict[str, float]:
    try:
        return msgspec.convert(value, type=MeasuredValues).values
    except msgspec.ValidationError as error:
        raise BadPipeline(f"values.near: {what}: {error}") from None
