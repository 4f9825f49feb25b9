"""How far do correct engines differ on a model's golden cases? From that, how near must an answer come?

Every engine that is installed here runs every variant that it reads, exactly and, where it makes a difference, in
shorter types; each in a worker, through the pipeline that boards use.
"""

import contextlib
import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shoal_agent.engine_table import present
from shoal_agent.front.batching import run_prepared
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.errors import BadPipeline, OperationError
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_agent.front.operations.values import Answer, Tensors, Verdict
from shoal_agent.front.worker import Worker, WorkerOptions
from shoal_agent.tuning.grid import UsableEngine, list_candidates
from shoal_wire.manifest import Model, Tensor, Variant
from shoal_wire.tuning import Candidate
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_bytes

from shoal_converters.errors import BuildFailed

DEADLINE_S = 60.0
"""For one inference."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one engine said to the golden cases of a model."""

    candidate: Candidate
    version: str
    verdicts: tuple[Verdict, ...]
    outputs: tuple[tuple[Tensors, ...], ...]
    """Of each golden case: those of its first calls, as far as they were to be kept."""

    @property
    def words(self) -> str:
        """`onnx-fp32 in openvino 2026.4.1 (fast)`."""
        one = self.candidate
        return f"{one.variant} in {one.engine} {self.version} ({one.precision})"


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The least score that a golden case asks for, and where that comes from."""

    minimum: float
    source: str


class RunningVariant:
    """A variant in a worker with one engine."""

    def __init__(self, worker: Worker) -> None:
        """Use `run_variant`."""
        self._worker = worker
        self.version = worker.info.engine_version

    def answer(self, raw: bytes, *, pipeline: Pipeline) -> Answer:
        """What a pipeline with it says of one item.

        Raises:
            OperationError, WorkerError: the item, the outputs or the engine.
        """
        return self.answer_with_outputs(raw, pipeline=pipeline)[0]

    def answer_with_outputs(self, raw: bytes, *, pipeline: Pipeline) -> tuple[Answer, list[Tensors]]:
        """The same, and the outputs of each call, by their names in the model's signature. Raises as `answer`."""
        prepared = pipeline.prepare(raw)
        outputs = run_prepared(prepared, batch=1, run=self.run)
        return pipeline.finish(outputs, prepared.context), outputs

    def run(self, feeds: Tensors) -> Tensors:
        """Outputs of one call, all by their names in the model's signature. Raises WorkerError."""
        return self._worker.run(feeds, deadline_s=DEADLINE_S)


@contextlib.contextmanager
def run_variant(
    variant: Variant,
    contents: Mapping[str, bytes],
    *,
    engine: str,
    precision: str = "exact",
    inputs: Sequence[Tensor] = (),
    outputs: Sequence[Tensor] = (),
) -> Iterator[RunningVariant]:
    """Load a variant in an engine, in a worker with one thread, for as long as the block lasts.

    `contents` has the bytes of files by name. `inputs` and `outputs` are the model's signature, needed only where the
    variant has bindings.

    Raises:
        BuildFailed: its bindings don't fit the signature.
        WorkerError: no such engine here, or it doesn't take the variant.
    """
    try:
        bindings = Bindings(variant.bindings, inputs=inputs, outputs=outputs)
    except BadPipeline as error:
        raise BuildFailed(f"variant {variant.name}: {error}") from None
    with contextlib.ExitStack() as opened:
        fds = []
        for name in variant.files:
            fds.append(seal_bytes(contents[name]))
            opened.callback(os.close, fds[-1])
        worker = Worker.start(
            sys.executable,
            engine=engine,
            model_fd=fds[0],
            more_fds=fds[1:],
            model_format=variant.format,
            bindings=bindings,
            options=WorkerOptions(threads=1, precision=precision),
        )
        yield RunningVariant(opened.enter_context(worker))


def list_runs(model: Model) -> tuple[Candidate, ...]:
    """Every way to run the variants of a model here with one thread; of each variant the usual engine comes first.

    Raises:
        BuildFailed: a variant that no engine here reads.
    """
    engines = [UsableEngine(one.engine, one.model_format, "") for one in present(interpreters={})]
    runs = list_candidates(model, engines, threads=(1,), batches=(1,), architecture=platform.machine())
    unread = {variant.name for variant in model.variants} - {run.variant for run in runs}
    if unread:
        raise BuildFailed(f"no engine that is installed here reads the variants {sorted(unread)}")
    return runs


def judge_golden_cases(
    models: Sequence[Model], contents: Mapping[str, bytes], *, runs: Sequence[Candidate], kept_calls: int = 0
) -> list[list[Judged]]:
    """Run the golden cases of models that have the same signature and variants; gives each model's verdicts, in the
    order of `runs`.

    `contents` has the bytes of files by name. Outputs of each case's first `kept_calls` calls stay in memory.

    Raises:
        BuildFailed: an engine that refuses a variant, or a case that has no answer.
    """
    variants = {variant.name: variant for variant in models[0].variants}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        judged = list(
            threads.map(lambda run: _judge(run, variants[run.variant], models, contents, kept_calls=kept_calls), runs)
        )
    return [list(of_model) for of_model in zip(*judged, strict=True)]


def choose_tolerance(judged: Sequence[Judged], *, case: int, margin: float, score: str, least: float) -> Tolerance:
    """Tolerance of a golden case: `margin` below the lowest score that an engine had. `score` says of what.

    Raises:
        BuildFailed: that would be less than `least`, below which the case would tell nothing.
    """
    scores = [one.verdicts[case].score for one in judged]
    lowest = min(scores)
    minimum = math.floor((lowest - margin) * 100 + 1e-9) / 100
    runs = ", ".join(one.words for one in judged)
    if minimum < least:
        raise BuildFailed(f"golden case {case + 1}: lowest {score} {lowest:.3f}, expected {least + margin:g}: {runs}")
    source = (
        f"Minimum {minimum:g}: lowest {score} of {len(scores)} runs by correct engines on {platform.machine()}, "
        f"{lowest:.3f} (highest {max(scores):.3f}), less a margin of {margin:g}. Runs: {runs}."
    )
    return Tolerance(minimum=minimum, source=source)


def _judge(
    run: Candidate, variant: Variant, models: Sequence[Model], contents: Mapping[str, bytes], *, kept_calls: int
) -> list[Judged]:
    """One for each model."""
    inputs, outputs = models[0].inputs, models[0].outputs
    try:
        with run_variant(
            variant, contents, engine=run.engine, precision=run.precision, inputs=inputs, outputs=outputs
        ) as running:
            return [_judge_cases(running, model, contents, run=run, kept_calls=kept_calls) for model in models]
    except (WorkerError, OperationError) as error:
        raise BuildFailed(f"variant {variant.name} in {run.engine} ({run.precision}): {error}") from error


def _judge_cases(
    running: RunningVariant, model: Model, contents: Mapping[str, bytes], *, run: Candidate, kept_calls: int
) -> Judged:
    pipeline = Pipeline(pre=model.pre, post=model.post)
    verdicts, kept = [], []
    for case in model.golden:
        answer, outputs = running.answer_with_outputs(contents[case.file], pipeline=pipeline)
        verdicts.append(compare(case.comparison, answer=answer, expected=case.expected))
        kept.append(tuple(outputs[:kept_calls]))
    return Judged(candidate=run, version=running.version, verdicts=tuple(verdicts), outputs=tuple(kept))
