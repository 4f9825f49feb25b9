"""How is a model tuned on this board, from its release to a verdict?"""

import contextlib
import fcntl
import os
import platform
import pwd
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import msgspec
from shoal_wire.tuning import KnownChoice

from shoal_agent.board import read_emulation, read_governor, read_processor, read_thermal_class
from shoal_agent.configuration import Configuration
from shoal_agent.cpu_budget import budget, read_processors
from shoal_agent.engine_table import present
from shoal_agent.files import Files
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.probe import ProbeResult, probe_device, probe_engine
from shoal_agent.front.probe_models import PROBE_MODELS
from shoal_agent.tuned import FOLDER, Conditions, Verdict, describe_model
from shoal_agent.tuning.confirmation import CHECK_S, confirm, plan_trial
from shoal_agent.tuning.errors import TuningFailed
from shoal_agent.tuning.grid import UsableEngine, batch_sizes, list_candidates, thread_counts
from shoal_agent.tuning.material import Material, open_folder, open_slot
from shoal_agent.tuning.measuring import Measuring, Tell
from shoal_agent.tuning.meters import find_meter
from shoal_agent.tuning.options import TuneOptions
from shoal_agent.tuning.task import GoldenTask
from shoal_agent.tuning.verdicts import keep_verdict, serve_by

LOCK = "lock"
"""Held by who measures: two at once would measure each other."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A verdict on a model, and how it came about."""

    verdict: Verdict
    is_earlier: bool
    """It was on the disk."""
    is_confirmed: bool
    """A known choice was checked; else all candidates were compared."""


def tune(options: TuneOptions, *, configuration: Configuration, files: Files, tell: Tell) -> Outcome:
    """The verdict on a model. What it chose is to serve from now on, unless it is about a release folder.

    Raises:
        TuningFailed: nothing can be tuned, or nothing answers right.
        NotEnrolled, StateDamaged: see `material.open_slot`.
    """
    sign = read_emulation()
    if sign:
        tell(f"this board is emulated ({sign}): its timings say nothing of a real one and are good for itself only")
    return tune_material(_open(options, files=files), options, configuration=configuration, files=files, tell=tell)


def tune_material(
    material: Material,
    options: TuneOptions,
    *,
    configuration: Configuration,
    files: Files,
    tell: Tell,
    known: Sequence[KnownChoice] = (),
) -> Outcome:
    """The same for a model that was opened. A `known` choice that a short check confirms takes the search's place.

    Where there is no state folder, a release folder is tuned all the same and nothing is kept.

    Raises:
        TuningFailed: nothing can be tuned, or nothing answers right.
        StateDamaged: serving.json can't be read.
        OSError: the state folder can't be written to.
    """
    if not options.state.is_dir():
        tell(f"there is no state folder {options.state}: the verdict isn't kept")
        return Outcome(
            verdict=_prepare(material, options, configuration=configuration, tell=tell).search(),
            is_earlier=False,
            is_confirmed=False,
        )
    with _alone(options.state, tell=tell):
        measuring = _prepare(material, options, configuration=configuration, tell=tell)
        outcome = (
            _find_earlier(measuring, files=files)
            or _check_known(measuring, files=files, known=known)
            or Outcome(verdict=measuring.search(), is_earlier=False, is_confirmed=False)
        )
        keep_verdict(files, options.state, outcome.verdict)
        if options.release_folder is None:
            serve_by(files, options.state, outcome.verdict)
    return outcome


def check_owner(options: TuneOptions, *, user: int) -> None:
    """Only the user whose state folder it is may tune: the daemon couldn't read what another one writes there.

    That holds for root as well, who may write anywhere.

    Raises:
        TuningFailed: `user` is another; says what to type.
    """
    try:
        owner = options.state.stat().st_uid
    except FileNotFoundError:
        return
    if owner == user:
        return
    command = ("shoal-agent", "tune", options.model, "--state", str(options.state))
    typed = shlex.join(("sudo", "-u", _user_name(owner), *command))
    other = ", or with another --state" if options.release_folder else ""
    raise TuningFailed(
        f"state folder {options.state}: belongs to user {_user_name(owner)}, but this is run by {_user_name(user)}: "
        f"type `{typed} …` with the same options{other}"
    )


def _user_name(user: int) -> str:
    """As sudo takes it."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


@contextlib.contextmanager
def _alone(state: Path, *, tell: Tell) -> Iterator[None]:
    """Wait until nobody else measures on this board for this state folder."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another tuning is under way; this one begins when it has ended")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
        return GoldenTask(model, [b"".join(material.read(case.file)) for case in model.golden], read=material.read)
    except OperationError as error:
        raise TuningFailed(f"{material.what}: model {model.name}: {error}") from None


def _prepare(material: Material, options: TuneOptions, *, configuration: Configuration, tell: Tell) -> Measuring:
    meter = find_meter()
    if options.objective == "energy" and not meter.name:
        raise TuningFailed("objective energy: this board has no meter of energy or power that can be read")
    task = _make_task(material)
    engines = list(_probe(material, configuration, tell=tell))
    conditions = _conditions(options, material, task, engines=engines, configuration=configuration)
    return Measuring(
        material=material,
        options=options,
        configuration=configuration,
        conditions=conditions,
        task=task,
        meter=meter,
        tell=tell,
    )


def _find_earlier(measuring: Measuring, *, files: Files) -> Outcome | None:
    verdict = measuring.find_earlier(files)
    return None if verdict is None else Outcome(verdict=verdict, is_earlier=True, is_confirmed=False)


def _check_known(measuring: Measuring, *, files: Files, known: Sequence[KnownChoice]) -> Outcome | None:
    """The outcome of the short check; None where nothing is known, or what is known isn't good here."""
    trial = plan_trial(
        known,
        measuring.material,
        candidates=measuring.conditions.candidates,
        threads=measuring.conditions.processors,
        objective=measuring.options.objective,
    )
    if trial is None:
        return None
    check = measuring.only(trial.candidates, budget_s=CHECK_S)
    earlier = _find_earlier(check, files=files)
    if earlier is not None:
        return replace(earlier, is_confirmed=True)
    try:
        verdict = check.search()
    except TuningFailed as error:
        measuring.tell(str(error))
        return None
    choice = confirm(trial, verdict.measured, objective=measuring.options.objective)
    measuring.tell(choice.why if choice.candidate else f"not confirmed: {choice.why}")
    if choice.candidate is None:
        return None
    return Outcome(verdict=msgspec.structs.replace(verdict, choice=choice), is_earlier=False, is_confirmed=True)


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
            devices = tuple(_probe_devices(result, tell=tell))
            yield UsableEngine(candidate.engine, candidate.model_format, result.version, devices)
        else:
            tell(f"engine {candidate.engine} for {candidate.model_format} isn't usable: {result.reason}")


def _probe_devices(found: ProbeResult, *, tell: Tell) -> Iterator[str]:
    """Other devices on which an engine works."""
    for device in found.other_devices:
        result = probe_device(found, device)
        if result.is_usable:
            yield device
        else:
            tell(f"engine {found.engine} for {found.model_format} isn't usable on {device}: {result.reason}")


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
        batches=batch_sizes(options.batches, calls=task.calls),
        architecture=platform.machine(),
    )
    if not candidates:
        formats = sorted({variant.needed_engines for variant in model.variants})
        has = sorted({f"{engine.engine} for {engine.model_format}" for engine in engines})
        raise TuningFailed(f"{material.what}: has variants for {formats}; engines that work here: {has or 'none'}")
    digests = [material.digests[name] for name in model.golden_files]
    return Conditions(
        model_sha256=describe_model(model, digests),
        variants={one.name: material.files_of(one.name) for one in model.variants if not material.lacks(one.name)},
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
