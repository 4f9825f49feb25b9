"""What must a candidate do, so that it can be judged and timed?

Golden cases are both: their answers are known, and their raw bytes go through the same pipeline as live input.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from shoal_wire.manifest import GoldenCase, Model
from shoal_wire.tuning import Candidate

from shoal_agent.front.golden_cases import judge_case
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Prepared, Tensors

TIMED_CASES = 4
"""Every turn runs all of them: more would make turns long without telling more."""

Run = Callable[[Prepared[Any]], list[Tensors]]
"""Gives the outputs of an item's calls. Raises WorkerError and BadOutput."""


class Task(Protocol):
    """Items that a candidate answers."""

    items: int
    """How many there are to be timed."""

    def check(self, run: Run, *, candidate: Candidate) -> str:
        """What is wrong with a candidate's answers, with numbers; empty where they are right."""

    def answer(self, number: int, run: Run) -> None:
        """Answer item `number`, from its bytes to its answer. Threads may do so at once."""


class GoldenTask:
    """The golden cases of a model."""

    def __init__(self, model: Model, raws: Sequence[bytes], *, read: Callable[[str], Iterable[bytes]]) -> None:
        """`raws`: the bytes of each golden case, in the manifest's order. `read` gives those of recorded outputs, by
        the file's name, in chunks.

        Raises:
            BadPipeline: the model asks for operations that this agent doesn't have.
            BadInput: a golden case isn't what the model takes.
        """
        self._pipeline = Pipeline(pre=model.pre, post=model.post)
        self._read = read
        self._cases: list[tuple[GoldenCase, bytes]] = list(zip(model.golden, raws, strict=True))
        self.items = min(TIMED_CASES, len(self._cases))
        self.calls = max(len(self._pipeline.prepare(raw).calls) for raw in raws)
        """The most that one case has."""

    def check(self, run: Run, *, candidate: Candidate) -> str:
        """See `Task`."""
        wrong = []
        for case, raw in self._cases:
            try:
                prepared = self._pipeline.prepare(raw)
                outputs = run(prepared)
                answer = self._pipeline.finish(outputs, prepared.context)
                verdict = judge_case(
                    case,
                    answer=answer,
                    outputs=outputs,
                    variant=candidate.variant,
                    precision=candidate.precision,
                    read=self._read,
                )
            except OperationError as error:
                wrong.append(f"{case.name}: {error}")
                continue
            if not verdict.passed:
                wrong.append(f"{case.name}: {verdict.words}")
        return f"{len(wrong)} of {len(self._cases)} golden cases failed: {'; '.join(wrong[:2])}" if wrong else ""

    def answer(self, number: int, run: Run) -> None:
        """See `Task`."""
        prepared = self._pipeline.prepare(self._cases[number][1])
        self._pipeline.finish(run(prepared), prepared.context)
