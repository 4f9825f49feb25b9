"""Does a candidate answer its golden cases on this board?

A niced front of its own runs them from raw bytes through the same pipeline as live input, so nothing that was
"only a little" wrong in pre-processing, engine or weights gets to serve.
"""

from shoal_wire.manifest import GoldenCase, Manifest

from shoal_agent.front.loading import LoadFailure, Stored, unseal
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import compare
from shoal_agent.front.operations.values import Answer
from shoal_agent.front.serving_model import ModelFailed, ServingModel, WorkerGone
from shoal_agent.front_messages import CaseResult, Verdict


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
        verdict = compare(case.comparison, answer=_answer(model, raw), expected=case.expected)
    except (LoadFailure, ModelFailed, OperationError) as error:
        return CaseResult(name=case.name, passed=False, detail=str(error))
    return CaseResult(name=case.name, passed=verdict.passed, detail=verdict.words)


def _answer(model: ServingModel, raw: bytes) -> Answer:
    """What the model says; asked once more where its worker died, which may have been anybody's doing."""
    try:
        return model.answer(raw)[0]
    except WorkerGone:
        return model.answer(raw)[0]
