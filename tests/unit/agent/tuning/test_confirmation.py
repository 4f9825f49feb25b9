"""When does a choice that other boards made hold here?"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.tuned import Measured
from shoal_agent.tuning.confirmation import Trial, confirm, plan_trial
from shoal_agent.tuning.material import Material
from shoal_wire.manifest import GoldenCase, Model, Operation, Variant
from shoal_wire.tuning import Candidate, KnownChoice, Objective

from tests.unit.agent.tuning.verdict_example import measured

FIRST = Candidate(variant="o", engine="onnxruntime", threads=2)
KNOWN = Candidate(variant="t", engine="litert", threads=1)
CANDIDATES = (
    Candidate(variant="x", engine="openvino", threads=1),
    replace(FIRST, precision="fast", threads=1),
    FIRST,
    KNOWN,
)
CHOICE = KnownChoice(model="notes", candidate=KNOWN, files=("c" * 64,), engine_version="2.1", p50_ms=3.0, boards=5)


def no_bytes(name: str) -> Iterable[bytes]:
    raise AssertionError(f"nobody reads {name}")


MODEL = Model(
    name="notes",
    task="notes",
    inputs=(),
    outputs=(),
    pre=(),
    post=(),
    variants=(
        Variant("x", "onnx", "int8", ("x.onnx",)),
        Variant("o", "onnx", "fp32", ("o.onnx",)),
        Variant("t", "tflite", "fp32", ("t.tflite",)),
    ),
    golden=(GoldenCase("a", "a.wav", {}, Operation("notes.f1", {}), "a test"),),
)
MATERIAL = Material(
    model=MODEL,
    what="a release",
    digests={"x.onnx": "a" * 64, "o.onnx": "b" * 64, "t.tflite": "c" * 64},
    sizes={},
    absent=frozenset({"x.onnx"}),
    read=no_bytes,
)


def plan(
    *known: KnownChoice, candidates: Sequence[Candidate] = CANDIDATES, objective: Objective = "latency"
) -> Trial | None:
    return plan_trial(known, MATERIAL, candidates=candidates, threads=2, objective=objective)


def test_the_known_one_is_compared_with_what_would_serve_otherwise() -> None:
    assert plan(CHOICE) == Trial(CHOICE, FIRST)


def test_where_that_is_the_known_one_it_runs_alone() -> None:
    first = replace(CHOICE, candidate=FIRST, files=("b" * 64,))
    trial = plan(first)
    assert trial == Trial(first, None)
    assert trial.candidates == (FIRST,)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "another"},
        {"files": ("d" * 64,)},
        {"candidate": replace(KNOWN, engine="tflite-runtime")},
        {"candidate": replace(KNOWN, threads=8)},
        {"candidate": Candidate(variant="x", engine="openvino", threads=1), "files": ("a" * 64,)},
    ],
    ids=["another model", "other bytes", "an engine that isn't here", "too many threads", "files that aren't here"],
)
def test_what_cannot_run_here_is_passed_over(changed: dict[str, Any]) -> None:
    assert plan(replace(CHOICE, **changed)) is None
    assert plan(replace(CHOICE, **changed), CHOICE) == Trial(CHOICE, FIRST)


def test_nothing_is_known_for_another_objective() -> None:
    assert plan(CHOICE, objective="memory") is None


def decide(*figures: Measured, rival: Candidate | None = FIRST) -> Candidate | None:
    return confirm(Trial(CHOICE, rival), figures, objective="latency").candidate


def test_it_is_confirmed_unless_the_other_is_clearly_faster() -> None:
    other = measured(FIRST, p50_ms=10.0, peak_mb=50)
    assert decide(measured(KNOWN, p50_ms=2.0, peak_mb=50), other) == KNOWN
    assert decide(measured(KNOWN, p50_ms=11.9, peak_mb=50), other) == KNOWN
    assert decide(measured(KNOWN, p50_ms=12.1, peak_mb=50), other) is None


def test_it_is_not_confirmed_where_it_answers_wrongly_or_does_not_run() -> None:
    choice = confirm(Trial(CHOICE, FIRST), [measured(FIRST, p50_ms=10.0, peak_mb=50)], objective="latency")
    assert choice.candidate is None
    assert "t litert exact threads=1, known from other boards, can't serve here" in choice.why


def test_it_is_confirmed_where_the_other_does_not_run_or_there_is_none() -> None:
    own = measured(KNOWN, p50_ms=2.0, peak_mb=50)
    assert decide(own) == decide(own, rival=None) == KNOWN


def test_the_reason_names_both_figures() -> None:
    figures = [measured(KNOWN, p50_ms=2.0, peak_mb=50), measured(FIRST, p50_ms=10.0, peak_mb=50)]
    why = confirm(Trial(CHOICE, FIRST), figures, objective="latency").why
    assert "known from 5 boards" in why and "p50 2.00 ms" in why and "p50 10.00 ms" in why
