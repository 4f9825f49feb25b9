"""In what order does a release come to be? Read, convert, judge, quantize, time, gate, promise, write."""

import errno
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs
from shoal_agent.engine_table import ELSEWHERE

from shoal_converters.building.job import Job, Order, Tell, check_inputs, note_source, open_job
from shoal_converters.building.judging import Answering, Contender, Judge
from shoal_converters.building.original import ask_original
from shoal_converters.building.promising import Promised, ask_engines, promise
from shoal_converters.building.quantized import Calibration, Quantizer
from shoal_converters.building.release import describe_model, write_build, write_refusal
from shoal_converters.building.reporting import make_report
from shoal_converters.building.samples import write_samples
from shoal_converters.building.source_check import check_source
from shoal_converters.building.tensorrt import Checked, ask_tensorrt
from shoal_converters.building.workshop import Workshop
from shoal_converters.errors import BadData, BuildFailed
from shoal_converters.evaluation import Answers, answer_all
from shoal_converters.forms import Form
from shoal_converters.gate import Verdict
from shoal_converters.gate import judge as judge_contender
from shoal_converters.golden_cases import pick_golden_cases
from shoal_converters.interpreting import answer_interpreted
from shoal_converters.paths import FULL_PRECISION, TENSORRT_CHECK, VARIANTS
from shoal_converters.quantization.methods import METHODS
from shoal_converters.report.results import Report
from shoal_converters.scratch import remove_abandoned, scratch_folder
from shoal_converters.speed import measure_speed

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""Errors that another folder may help against."""
TELL_EVERY_S = 10.0
"""How far a set is answered."""


def build(order: Order, *, tell: Tell) -> Report:
    """Make a release and its report in `order.out`, whole or not at all; `tell` gets a line for each thing done.

    Where nothing may be released, the report alone is written, beside it.

    Raises:
        ConverterError: see its branches; what was in `order.out` before is still there.
    """
    job = open_job(order)
    try:
        remove_abandoned()
        with scratch_folder() as folder:
            return _build(job, folder, tell=tell)
    except OSError as error:
        where = f"; a build keeps its files in {tempfile.gettempdir()}, or where TMPDIR says"
        raise BuildFailed(f"{error}{where if error.errno in OF_THE_DISK else ''}") from error


def _build(job: Job, folder: Path, *, tell: Tell) -> Report:
    recipe = job.recipe
    samples = folder / "samples.npz"
    write_samples(job, samples)
    workshop = Workshop(
        job.source,
        recipe.source,
        folder=folder / "made",
        samples=samples,
        interpreters=job.order.interpreters,
        tell=tell,
    )
    workshop.make(job.wanted.names)
    check_inputs(job, workshop.signature)
    compared = check_source(job, workshop, tell=tell)
    missing = workshop.make(job.wanted.names)
    judge = ask_original(job, workshop, answer=_make_answering(job, workshop, tell=tell))
    contenders = [judge.consider(form) for form in _list_judged(job, workshop)]
    calibration = Calibration(
        job, judge.original.form, signature=workshop.signature, path=folder / "calibration.npz", tell=tell
    )
    quantizer = Quantizer(workshop, judge, recipe.budget, collect=calibration.collect, tell=tell)
    searched = [name for name in job.wanted.names if name in METHODS and name not in missing]
    contenders += [found for found in map(quantizer.quantize, searched) if found is not None]
    asked = {one.form.name: _ask_tensorrt(job, one.form, tell=tell) for one in contenders if _is_for_tensorrt(job, one)}
    contenders = _gate(job, _time(job, workshop, contenders, tell=tell), asked)
    report = make_report(
        job,
        judge,
        contenders,
        compared=compared,
        missing=missing | quantizer.missing,
        notes=(
            *note_source(job.source),
            *workshop.notes,
            *calibration.notes,
            *(one.note for one in asked.values() if one.note),
        ),
    )
    try:
        promised = _promise(job, workshop, judge, contenders, tell=tell)
    except (BuildFailed, BadData) as error:
        page = write_refusal(report, reason=str(error), folder=job.order.out)
        raise BuildFailed(f"nothing is released: {error}; all that was found out: {page}") from None
    report = structs.replace(report, golden=promised.golden, notes=(*report.notes, *promised.notes))
    contents = {name: content for one in contenders for name, content in one.form.files.items()}
    return write_build(promised.model, contents | dict(promised.contents), report, recipe=recipe, folder=job.order.out)


def _make_answering(job: Job, workshop: Workshop, *, tell: Tell) -> Answering:
    def answer(form: Form) -> Answers:
        count = len(job.evaluation)
        tell(f"{form.name}: answering {count} items")
        if form.format in ELSEWHERE:
            return answer_interpreted(
                form,
                job.evaluation,
                signature=workshop.signature,
                pipeline=job.pipeline,
                interpreters=job.order.interpreters,
            )
        told_at = time.monotonic()

        def tell_now_and_then(answered: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                tell(f"{form.name}: answered {answered} of {count} items")

        return answer_all(
            form,
            job.evaluation,
            signature=workshop.signature,
            pipeline=job.pipeline,
            on_answers=tell_now_and_then,
        )

    return answer


def _time(job: Job, workshop: Workshop, contenders: Sequence[Contender], *, tell: Tell) -> list[Contender]:
    """The contenders with the speeds of all that answered."""
    budget_s = job.recipe.budget.timing_s
    tell(f"timing for about {budget_s:g} s")
    measured = measure_speed(
        [one.form for one in contenders if one.judged is not None],
        [item.raw for item in job.evaluation],
        model=describe_model(job, workshop.signature, []),
        budget_s=budget_s,
        tell=tell,
    ).variants
    timed = []
    for one in contenders:
        timing = measured.get(one.form.name)
        if timing is not None:
            result = structs.replace(one.result, speeds=timing.speeds, not_timed=dict(timing.not_timed))
            one = replace(one, result=result)
        timed.append(one)
    return timed


def _list_judged(job: Job, workshop: Workshop) -> list[Form]:
    """Forms that are wanted, and those in full precision that others are compared with."""
    formats = {VARIANTS[name].format for name in job.wanted.names}
    return [
        form
        for name, form in workshop.forms.items()
        if name in job.wanted.names or (name in FULL_PRECISION and form.format in formats)
    ]


def _is_for_tensorrt(job: Job, contender: Contender) -> bool:
    """Whether TensorRT is to say something of it: of what is made for it, and of what a board would build a plan of."""
    return "onnx-int8-tensorrt" in job.wanted.names and contender.form.name in TENSORRT_CHECK.takes


def _ask_tensorrt(job: Job, form: Form, *, tell: Tell) -> Checked:
    tell(f"{form.name}: asking TensorRT's parser and builder")
    return ask_tensorrt(form, interpreters=job.order.interpreters)


def _gate(job: Job, contenders: Sequence[Contender], asked: Mapping[str, Checked]) -> list[Contender]:
    """The contenders with what becomes of them; each is compared with the full-precision form of its format."""
    full = {one.form.format: one.result for one in contenders if one.form.name in FULL_PRECISION}
    gated = []
    for one in contenders:
        verdict = judge_contender(
            one.result,
            metric=job.task.metric,
            max_drop=job.recipe.budget.max_drop,
            full=full.get(one.form.format),
        )
        if one.form.name not in job.wanted.names:
            verdict = Verdict(False, "not asked for; the others of its format are compared with it")
        elif one.form.name == "onnx-int8-tensorrt" and asked[one.form.name].refused:
            verdict = Verdict(False, asked[one.form.name].refused)
        reason = "; ".join(dict.fromkeys(words for words in (verdict.words, one.result.reason) if words))
        result = structs.replace(one.result, is_released=verdict.is_released, reason=reason, gains=verdict.gains)
        gated.append(replace(one, result=result))
    return gated


def _promise(job: Job, workshop: Workshop, judge: Judge, contenders: Sequence[Contender], *, tell: Tell) -> Promised:
    """Golden cases out of the evaluation set, run by every engine here on every released variant."""
    released = [one for one in contenders if one.result.is_released]
    if not released:
        asked_for = [one for one in contenders if one.form.name in job.wanted.names]
        reasons = (f"{one.form.name} {one.result.reason.partition(';')[0]}" for one in asked_for)
        raise BuildFailed(", ".join(reasons) or "none of the variants could be made")
    answers = [one.judged.answers for one in released if one.judged is not None]
    picked = pick_golden_cases(
        judge.items, judge.original.answers, others=answers, task=job.task, count=job.recipe.golden_cases
    )
    tell(f"golden cases: {len(picked)}, in every engine")
    model = describe_model(job, workshop.signature, released)
    model = structs.replace(model, reference_output=job.task.summarise(judge.original.answers))
    return promise(model, [one.form for one in released], picked, compare=job.task.compare, ask=ask_engines)
