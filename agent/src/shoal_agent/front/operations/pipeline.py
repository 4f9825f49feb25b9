"""How do a manifest's operations turn raw bytes into calls of the model, and its outputs into an answer?"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from shoal_wire.manifest import Operation

from shoal_agent.front.operations import COMPARISONS, DESCRIPTIONS, POST, PRE, Step
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.values import Answer, Outputs, Prepared, Tensors, Verdict

_Kind = TypeVar("_Kind")


class Pipeline:
    """The pre- and post-processing of one model. It holds no state: calls may overlap."""

    def __init__(self, *, pre: Sequence[Operation], post: Sequence[Operation]) -> None:
        """Parse all parameters and check that the steps fit one another.

        Raises:
            BadPipeline: an unknown operation, a wrong parameter, or a step that can't follow the one before it.
        """
        self._pre, prepared = _parse_chain(pre, table=PRE, takes=bytes, gives=Prepared, what="pre-processing")
        outputs: Any = Outputs
        takes = outputs[get_args(prepared)]
        self._post, _ = _parse_chain(post, table=POST, takes=takes, gives=dict, what="post-processing")
        self._describe = DESCRIPTIONS[post[-1].name]

    def prepare(self, raw: bytes) -> Prepared[Any]:
        """Turn one item into inputs for the model, one dict per inference.

        Raises:
            BadInput: the bytes are not what this pipeline takes.
        """
        value: object = raw
        for step in self._pre:
            value = step.apply(value)
        assert isinstance(value, Prepared)
        return value

    def finish(self, outputs: Sequence[Tensors], context: object) -> Answer:
        """Turn the outputs of all inferences, in the order of `Prepared.calls`, into an answer that JSON can hold.

        `context` is that of `Prepared`.

        Raises:
            BadOutput: an output is missing, of another shape, or not finite.
        """
        value: object = Outputs(calls=outputs, context=context)
        for step in self._post:
            value = step.apply(value)
        assert isinstance(value, dict)
        return value

    def describe(self, answer: Answer) -> str:
        """Put an answer of `finish` in words, for people."""
        return self._describe(answer)


def compare(comparison: Operation, *, answer: Answer, expected: object) -> Verdict:
    """Judge an answer by that of a golden case.

    Raises:
        BadPipeline: an unknown comparison, a wrong parameter, or an expected answer of another kind.
    """
    return _parse(comparison, table=COMPARISONS, what="comparison").compare(answer, expected=expected)


def _parse_chain(
    operations: Sequence[Operation], *, table: Mapping[str, type[Step]], takes: Any, gives: type, what: str
) -> tuple[list[Step], Any]:
    """The steps, and the type that the last one gives."""
    steps = []
    at_hand = takes
    for operation in operations:
        step = _parse(operation, table=table, what=what)
        if not _takes(step, at_hand):
            raise BadPipeline(f"{what}: {operation.name} takes {_name(step.takes)}, but gets {_name(at_hand)}")
        steps.append(step)
        at_hand = step.gives
    if (get_origin(at_hand) or at_hand) is not gives:
        raise BadPipeline(f"{what}: ends with {_name(at_hand)}, expected {gives.__name__}")
    return steps, at_hand


def _takes(step: Step, at_hand: Any) -> bool:
    """Whether a step can follow: types must be equal, but bare `Outputs` are those of any context."""
    return bool(step.takes == at_hand or (step.takes is Outputs and get_origin(at_hand) is Outputs))


def _name(kind: Any) -> str:
    """`Outputs[Windowing]` without the modules' names."""
    of = ", ".join(part.__name__ for part in get_args(kind))
    return f"{kind.__name__}[{of}]" if of else str(kind.__name__)


def _parse(operation: Operation, *, table: Mapping[str, type[_Kind]], what: str) -> _Kind:
    kind = table.get(operation.name)
    if kind is None:
        raise BadPipeline(f"{what}: unknown operation {operation.name!r}, this agent knows {sorted(table)}")
    try:
        return msgspec.convert(operation.parameters, type=kind)
    except msgspec.ValidationError as error:
        raise BadPipeline(f"{what}: {operation.name}: {error}") from None
