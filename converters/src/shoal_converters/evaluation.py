"""What does a form of the model answer to every item of a set, in an engine of this machine?"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue

from shoal_agent.engine_table import engines_for
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer
from shoal_worker.errors import WorkerError

from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData, ToolMissing
from shoal_converters.forms import Form, Signature
from shoal_converters.spread import RunningVariant, run_variant

USUAL_ENGINES: Mapping[str, str] = {"onnx": "onnxruntime", "tflite": "litert", "openvino": "openvino"}
"""In which a format is judged, where it is installed: the one that its makers test with."""


class Unfit(Exception):
    """An engine refuses the form or fails on an item, or its outputs are not numbers; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a form said to each item, in their order."""

    judged_in: str
    """Engine and version."""
    answers: tuple[Answer, ...]


def choose_engine(form: Form) -> str:
    """The engine that judges a form.

    Raises:
        ToolMissing: none is installed that reads its format and computes it right.
    """
    here = engines_for(form.format, interpreters={})
    fit = [engine for engine in here if not form.runtimes or engine in form.runtimes]
    if not fit:
        raise ToolMissing(f"{form.name}: no engine for {form.format} is installed here, found {list(here)}")
    usual = USUAL_ENGINES.get(form.format, fit[0])
    return usual if usual in fit else fit[0]


def open_form(form: Form, *, signature: Signature) -> AbstractContextManager[RunningVariant]:
    """A form in its usual engine, in a worker with one thread. Raises ToolMissing at once, WorkerError when entered."""
    return run_variant(
        form.variant,
        form.files,
        engine=choose_engine(form),
        inputs=signature.inputs,
        outputs=signature.outputs,
    )


def answer_all(
    form: Form,
    items: Sequence[Item],
    *,
    signature: Signature,
    pipeline: Pipeline,
    on_answers: Callable[[int], None] = lambda _: None,
) -> Answers:
    """Answers of a form in its usual engine, computed exactly: one worker for each core, each with one thread.

    `on_answers` gets how many there are so far.

    Raises:
        Unfit: the engine refuses the form or fails, or what comes out isn't what the pipeline takes.
        ToolMissing: see `choose_engine`.
    """
    engine = choose_engine(form)
    try:
        with contextlib.ExitStack() as opened:
            idle: SimpleQueue[RunningVariant] = SimpleQueue()
            for _ in range(min(os.cpu_count() or 1, len(items))):
                idle.put(opened.enter_context(open_form(form, signature=signature)))
            threads = ThreadPoolExecutor(idle.qsize())
            opened.callback(threads.shutdown, cancel_futures=True)
            answers: list[Answer] = []
            for answer in threads.map(lambda item: _answer(item, idle, pipeline), items):
                answers.append(answer)
                on_answers(len(answers))
            return Answers(judged_in=f"{engine} {idle.get().version}", answers=tuple(answers))
    except WorkerError as error:
        raise Unfit(f"{engine}: {error}") from None


def check_items(items: Sequence[Item], *, pipeline: Pipeline, what: str) -> None:
    """Make sure that pre-processing takes every item, before hours are spent on them.

    Raises:
        BadData: it doesn't take one.
    """
    for item in items:
        try:
            pipeline.prepare(item.raw)
        except OperationError as error:
            raise BadData(f"{what}: {item.name}: {error}") from None


def _answer(item: Item, idle: SimpleQueue[RunningVariant], pipeline: Pipeline) -> Answer:
    with _borrowed(idle) as running:
        try:
            return running.answer(item.raw, pipeline=pipeline)
        except OperationError as error:
            raise Unfit(f"{item.name}: {error}") from None


@contextlib.contextmanager
def _borrowed(idle: SimpleQueue[RunningVariant]) -> Iterator[RunningVariant]:
    running = idle.get()
    try:
        yield running
    finally:
        idle.put(running)
