"""How is a model tuned on this board, from its release to a verdict?"""

import contextlib
import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version

from shoal_wire.encoding import encode
from shoal_wire.tuning import Candidate
from shoal_worker.memory import seal_chunks

from shoal_agent.configuration import Configuration, SlotSetting
from shoal_agent.engine_table import present
from shoal_agent.files import Files
from shoal_agent.front.cpu_budget import budget, read_processors
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.probe import probe_engine
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_agent.tuned import Choice, Conditions, Measured, Refused, Verdict
from shoal_agent.tuning.bench import Bench, LoadedFiles
from shoal_agent.tuning.board import read_governor, read_processor, read_thermal_class
from shoal_agent.tuning.errors import TuningFailed
from shoal_agent.tuning.grid import UsableEngine, batch_sizes, list_candidates, thread_counts
from shoal_agent.tuning.material import Material, open_folder, open_slot
from shoal_agent.tuning.meters import Meter, find_meter
from shoal_agent.tuning.options import TuneOptions
from shoal_agent.tuning.rules import choose, pareto_set
from shoal_agent.tuning.search import Found, Goal, search
from shoal_agent.tuning.task import GoldenTask
from shoal_agent.tuning.verdicts import find_verdict, keep_verdict

Tell = Callable[[str], None]


def tune(options: TuneOptions, *, configuration: Configuration, files: Files, tell: Tell) -> tuple[Verdict, bool]:
    """The verdict on a model, and whether it is an earlier one. Either way what it chose is to serve from now on.

    Raises:
        TuningFailed: nothing can be tuned, or nothing answers right.
        NotEnrolled, StateDamaged: see `material.open_slot`.
    """
    meter = find_meter()
    if options.objective == "energy" and not meter.name:
        raise TuningFailed("objective energy: this board has no meter of energy or power that can be read")
    material = _open(options, files=files)
    task = _make_task(material)
    engines = list(_probe(material, configuration, tell=tell))
    conditions = _conditions(options, material, task, engines=engines, configuration=configuration)
    verdict = None
    if not options.is_fresh:
        verdict = find_verdict(files, options.state, conditions=conditions, budget_s=options.budget_s)
    is_earlier = verdict is not None
    if verdict is None:
        verdict = _measure(
            options, material, task, conditions=conditions, configuration=configuration, meter=meter, tell=tell
        )
    keep_verdict(files, options.state, verdict)
    return verdict, is_earlier


def _open(options: TuneOptions, *, files: Files) -> Material:
    if options.release_folder is not None:
        return open_folder(options.release_folder, name=options.model)
    return open_slot(files, options.state, name=options.model)


def _make_task(material: Material) -> GoldenTask:
    model = material.model
    missing = sorted(case.file for case in model.golden if case.file in material.absent)
    if missing:
        raise TuningFailed(f"{material.what}: its golden case {missing[0]} isn't on this board")
    try:
        return GoldenTask(model, [b"".join(material.read(case.file)) for case in model.golden])
    except OperationError as error:
        raise TuningFailed(f"{material.what}: model {model.name}: {error}") from None


def _probe(material: Material, configuration: Configuration, *, tell: Tell) -> Iterator[UsableEngine]:
    """Engines that work here, for the formats of the model's variants. A format without a probe is tried as it is."""
    formats = {variant.format for variant in material.model.variants}
    for candidate in present(interpreters=configuration.interpreters, allowed=configuration.engines):
        if candidate.model_format not in formats:
            continue
        if candidate.model_format not in PROBE_MODELS:
            yield UsableEngine(candidate.engine, candidate.model_format, "")
            continue
        interpreter = configuration.interpreters.get(candidate.engine, sys.executable)
        result = probe_engine(interpreter, engine=candidate.engine, model_format=candidate.model_format)
        if result.is_usable:
            yield UsableEngine(candidate.engine, candidate.model_format, result.version)
        else:
            tell(f"engine {candidate.engine} for {candidate.model_format} isn't usable: {result.reason}")


def _conditions(
    options: TuneOptions,
    material: Material,
    task: GoldenTask,
    *,
    engines: Sequence[UsableEngine],
    configuration: Configuration,
) -> Conditions:
    model = material.model
    processors = budget(read_processors(), configured=configuration.threads)
    candidates = list_candidates(
        model,
        engines,
        threads=options.threads or thread_counts(processors),
        batches=batch_sizes(model, options.batches, calls=task.calls),
        architecture=platform.machine(),
    )
    if not candidates:
        formats = sorted({variant.format for variant in model.variants})
        has = sorted({f"{engine.engine} for {engine.model_format}" for engine in engines})
        raise TuningFailed(f"{material.what}: has variants for {formats}; engines that work here: {has or 'none'}")
    digests = [material.digests[case.file] for case in model.golden]
    return Conditions(
        model_sha256=hashlib.sha256(encode(model) + "".join(digests).encode()).hexdigest(),
        variants={variant.name: material.files_of(variant.name) for variant in model.variants},
        engines={f"{engine.engine}.{engine.model_format}": engine.version for engine in engines},
        processor=read_processor(),
        processors=processors,
        governor=read_governor(),
        thermal=read_thermal_class(),
        agent_version=version("shoal-agent"),
        objective=options.objective,
        limits=options.limits,
        candidates=candidates,
    )


def _measure(
    options: TuneOptions,
    material: Material,
    task: GoldenTask,
    *,
    conditions: Conditions,
    configuration: Configuration,
    meter: Meter,
    tell: Tell,
) -> Verdict:
    began = time.monotonic()
    absent = [
        Refused(candidate=one, reason=f"not on this board: {', '.join(material.lacks(one.variant))}")
        for one in conditions.candidates
        if material.lacks(one.variant)
    ]
    here = [one for one in conditions.candidates if not material.lacks(one.variant)]
    with _loaded_files(material, here) as variants:
        bench = Bench(
            variants,
            task=task,
            interpreters=configuration.interpreters,
            own=sys.executable,
            deadline_s=configuration.slots.get(material.model.name, SlotSetting()).deadline_s,
            meter=meter,
        )
        with contextlib.closing(bench):
            goal = Goal(options.objective, options.limits, options.budget_s)
            found = search(here, bench, goal=goal, tell=tell)
    refused = (*found.refused, *absent)
    if not found.measured:
        raise TuningFailed(f"{material.what}: no candidate answers right: {_list(refused)}")
    return Verdict(
        model=material.model.name,
        at=time.time(),
        conditions=conditions,
        budget_s=options.budget_s,
        took_s=time.monotonic() - began,
        is_settled=found.is_settled,
        meter=meter.name,
        measured=found.measured,
        refused=refused,
        pareto=tuple(one.candidate for one in pareto_set(found.measured)),
        choice=_choose(found, options),
    )


def _choose(found: Found, options: TuneOptions) -> Choice:
    """Among the finalists; where none of them meets the limits, among all."""
    finalists: list[Measured] = [one for one in found.measured if one.is_finalist]
    choice = choose(finalists or found.measured, objective=options.objective, limits=options.limits)
    if choice.candidate is None:
        choice = choose(found.measured, objective=options.objective, limits=options.limits)
    return choice


@contextlib.contextmanager
def _loaded_files(material: Material, candidates: Sequence[Candidate]) -> Iterator[dict[str, LoadedFiles]]:
    """The files of the candidates' variants in memory, for as long as the block lasts."""
    wanted = {one.variant for one in candidates}
    with contextlib.ExitStack() as opened:
        variants = {}
        for variant in material.model.variants:
            if variant.name not in wanted:
                continue
            fds = []
            for name in variant.files:
                fds.append(seal_chunks(material.read(name)))
                opened.callback(os.close, fds[-1])
            variants[variant.name] = LoadedFiles(
                model_format=variant.format,
                fds=tuple(fds),
                size_bytes=tuple(material.sizes[name] for name in variant.files),
                measured_bytes=variant.memory_bytes,
            )
        yield variants


def _list(refused: Sequence[Refused]) -> str:
    return "; ".join(f"{one.candidate}: {one.reason}" for one in refused[:6]) or "none could be tried"
