"""Does a candidate answer its golden cases on this board?

A niced front of its own runs them from raw bytes through the same pipeline as live input, so nothing that was
"only a little" wrong in pre-processing, engine or weights gets to serve. Where the publisher recorded the model's
outputs, these are compared as well.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from shoal_wire.manifest import GoldenCase, Manifest

from shoal_agent.configuration import SlotSetting
from shoal_agent.front.admission import NoRoom, choose_swap
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.golden_cases import judge_case
from shoal_agent.front.loading import (
    LoadFailure,
    LoadSetting,
    Stored,
    Way,
    choose_ways,
    load_manifest,
    load_models,
    predict_peaks,
    unseal,
)
from shoal_agent.front.model_workers import Watcher
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.serving_model import Answered, ModelFailed, ServingModel, WorkerGone
from shoal_agent.front.worker import WorkerOptions
from shoal_agent.front_messages import CaseResult, Configure, Verdict

CHECK_NICE = 10
"""Golden cases must not take the processor from live input."""
CHECK_THREADS = 1


def check_candidate(stored: Stored, configuration: Configure, *, watcher: Watcher) -> Verdict:
    """Whether a release passes its golden cases in the way in which it would serve.

    A choice of tuning was made with other golden cases perhaps, so it isn't the release's fault where it fails, nor
    where there is no memory for it: then the release is checked once more without it.
    """
    verdict, is_tuned = _check_once(stored, configuration, watcher=watcher)
    if verdict.passed or not is_tuned:
        return verdict
    watcher.noticed("tuning-ignored", f"{stored.held.reference.release}: {verdict.reason}")
    untuned, _ = _check_once(replace(stored, tuned={}), configuration, watcher=watcher)
    if not untuned.passed:
        return untuned
    return msgspec.structs.replace(untuned, is_untuned=True, is_short=verdict.is_short)


def _check_once(stored: Stored, configuration: Configure, *, watcher: Watcher) -> tuple[Verdict, bool]:
    """How a release does, and whether a choice of tuning was followed."""
    is_tuned = False
    try:
        manifest = load_manifest(stored)
        setting = _setting(manifest, configuration)
        ways = choose_ways(stored, manifest, setting=setting)
        is_tuned = any(way.choice for way in ways)
        with _loaded(stored, manifest, ways, setting=setting, watcher=watcher) as models:
            return run_golden_cases(stored, manifest, models), is_tuned
    except NoRoom as error:
        return Verdict(passed=False, reason=str(error), is_short=True), is_tuned
    except LoadFailure as error:
        return Verdict(passed=False, reason=str(error)), is_tuned


def _setting(manifest: Manifest, configuration: Configure) -> LoadSetting:
    return LoadSetting(
        options=WorkerOptions(
            threads=CHECK_THREADS,
            nice=CHECK_NICE,
            groups=Path(configuration.groups) if configuration.groups else None,
        ),
        interpreters=configuration.interpreters,
        engines=configuration.engines,
        own=sys.executable,
        deadline_s=configuration.slots.get(manifest.name, SlotSetting()).deadline_s,
    )


@contextlib.contextmanager
def _loaded(
    stored: Stored, manifest: Manifest, ways: Sequence[Way], *, setting: LoadSetting, watcher: Watcher
) -> Iterator[dict[str, ServingModel]]:
    """Load a release beside whatever serves, and let go of it afterwards.

    Raises:
        LoadFailure: it can't be loaded here.
        NoRoom: there is no memory for it now.
    """
    needed = predict_peaks(manifest, ways)
    try:
        choose_swap(needed, room=read_room(), idle_bytes=0, serving_bytes=None, policy="availability-preserving")
    except NoRoom as error:
        raise NoRoom(f"beside what serves, release {manifest.name} {manifest.version} {error}") from None
    models = load_models(stored, manifest, ways, setting=setting, watcher=watcher)
    try:
        yield models
    finally:
        for model in models.values():
            model.close()


def run_golden_cases(stored: Stored, manifest: Manifest, models: dict[str, ServingModel]) -> Verdict:
    """Run every golden case of every model of a release."""
    cases = [
        _run_case(stored, manifest, case, models[model.name]) for model in manifest.models for case in model.golden
    ]
    failed = [case for case in cases if not case.passed]
    if failed:
        reason = f"{len(failed)} of {len(cases)} golden cases failed: {failed[0].name}: {failed[0].detail}"
    else:
        reason = f"{len(cases)} of {len(cases)} golden cases passed"
    return Verdict(passed=not failed, reason=reason, cases=tuple(cases))


def _run_case(stored: Stored, manifest: Manifest, case: GoldenCase, model: ServingModel) -> CaseResult:
    try:
        raw = b"".join(unseal(stored, manifest.file(case.file)))
        answered = _answer(model, raw)
        verdict = judge_case(
            case,
            answer=answered.answer,
            outputs=answered.outputs,
            variant=model.variant,
            precision=model.precision,
            read=lambda name: unseal(stored, manifest.file(name)),
        )
    except (LoadFailure, ModelFailed, OperationError) as error:
        return CaseResult(name=case.name, passed=False, detail=str(error))
    return CaseResult(name=case.name, passed=verdict.passed, detail=verdict.words)


def _answer(model: ServingModel, raw: bytes) -> Answered:
    """What the model says; asked once more where its worker died, which may have been anybody's doing."""
    try:
        return model.answer(raw)
    except WorkerGone:
        return model.answer(raw)
