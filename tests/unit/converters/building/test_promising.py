"""Which golden cases are kept and how near boards must come, by what engines are said to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from shoal_agent.front.operations.values import Verdict
from shoal_converters.building.promising import LEAST_SCORE, MARGIN, Ask, Promised, group_same, promise
from shoal_converters.errors import BuildFailed
from shoal_converters.forms import Form
from shoal_converters.golden_cases import Picked
from shoal_converters.spread import Judged
from shoal_converters.tasks.classification import Classification
from shoal_wire.manifest import Model, Tensor
from shoal_wire.tuning import Candidate

from tests.unit.converters.building.contest import form, items

FORMS = [form("onnx-fp32"), form("onnx-int8")]


def run(variant: str, scores: Sequence[float], *, engine: str = "onnxruntime", moved: float = 0.0) -> Judged:
    """One engine's scores of all cases, 0 where it answers wrongly; `moved`: how far its outputs lie off."""
    return Judged(
        candidate=Candidate(variant=variant, engine=engine, threads=1),
        version="1.0",
        verdicts=tuple(Verdict(passed=score > 0, score=score, words=f"score {score}") for score in scores),
        outputs=tuple(({"y": np.array([1.0 + moved, 2.0], np.float32)},) for _ in scores),
    )


def saying(*said: Judged | str) -> Ask:
    def ask(model: Model, contents: Mapping[str, bytes]) -> list[Judged | str]:
        assert {case.file for case in model.golden} <= set(contents)
        return list(said)

    return ask


def make_promise(*said: Judged | str, forms: Sequence[Form] = ()) -> Promised:
    contenders = [*FORMS, *forms]
    model = Model(
        name="m",
        task="classification",
        inputs=(Tensor("x", "float32", (1, 2)),),
        outputs=(Tensor("y", "float32", (2,)),),
        pre=(),
        post=(),
        variants=tuple(one.variant for one in contenders),
        golden=(),
    )
    picked = [Picked(item=item, place=place, kind="easy") for place, item in enumerate(items(("cat", "dog")))]
    return promise(model, contenders, picked, compare=Classification().compare, ask=saying(*said))


def minima(promised: Promised) -> list[float]:
    return [case.comparison.parameters["minimum_score"] for case in promised.model.golden]


def test_a_board_may_be_a_margin_worse_than_the_worst_correct_engine() -> None:
    promised = make_promise(
        run("onnx-fp32", (0.9, 0.8)), run("onnx-fp32", (0.88, 0.81), engine="openvino"), run("onnx-int8", (0.7, 0.85))
    )
    assert minima(promised) == pytest.approx([0.7 - MARGIN, 0.8 - MARGIN])
    assert promised.notes == ()
    assert promised.contents["golden-1.txt"] == b"item 0"


def test_an_engine_that_answers_wrongly_is_told_and_allows_nothing() -> None:
    promised = make_promise(
        run("onnx-fp32", (0.9, 0.8)), run("onnx-fp32", (0.9, 0.0), engine="openvino"), run("onnx-int8", (0.9, 0.8))
    )
    assert minima(promised) == pytest.approx([0.85, 0.75])
    (note,) = promised.notes
    assert "onnx-fp32 in openvino 1.0 (exact) answers golden case golden-2 wrongly" in note


def test_a_case_that_a_variant_fails_in_its_usual_engine_is_none() -> None:
    promised = make_promise(run("onnx-fp32", (0.9, 0.8)), run("onnx-int8", (0.9, LEAST_SCORE)))
    assert [case.name for case in promised.model.golden] == ["golden-1"]
    assert set(promised.contents) == {"golden-1.txt", "outputs-1-1.npz", "outputs-1-2.npz"}


def test_an_engine_that_cannot_run_a_variant_is_told() -> None:
    promised = make_promise(run("onnx-fp32", (0.9, 0.8)), run("onnx-int8", (0.9, 0.8)), "openvino refuses onnx-int8")
    assert promised.notes == ("golden cases: openvino refuses onnx-int8",)


def test_nothing_is_promised_where_no_case_is_answered_rightly() -> None:
    with pytest.raises(BuildFailed, match="none is answered rightly by every variant"):
        make_promise(run("onnx-fp32", (0.9, 0.0)), run("onnx-int8", (0.0, 0.9)))


def test_nothing_is_promised_of_a_variant_that_no_engine_runs() -> None:
    with pytest.raises(BuildFailed, match="no engine here runs: openvino refuses it"):
        make_promise(run("onnx-fp32", (0.9, 0.9)), "openvino refuses it")


def test_what_runs_elsewhere_keeps_its_place_and_is_not_run_here() -> None:
    promised = make_promise(run("onnx-fp32", (0.9, 0.8)), run("onnx-int8", (0.9, 0.8)), forms=[form("coreml-fp16")])
    assert [one.name for one in promised.model.variants] == ["onnx-fp32", "onnx-int8", "coreml-fp16"]
    assert all("coreml-fp16" not in one.variants for case in promised.model.golden for one in case.outputs)


def test_nothing_is_promised_of_what_all_runs_elsewhere() -> None:
    model = Model(name="m", task="", inputs=(), outputs=(), pre=(), post=(), variants=(), golden=())
    with pytest.raises(BuildFailed, match="no variant runs on this machine"):
        promise(model, [form("coreml-fp16")], [], compare=Classification().compare, ask=saying())


def test_the_further_outputs_of_correct_engines_lie_apart_the_further_a_board_may_be_off() -> None:
    def allow(moved: float) -> float:
        promised = make_promise(
            run("onnx-fp32", (0.9, 0.8)),
            run("onnx-fp32", (0.9, 0.8), engine="openvino", moved=moved),
            run("onnx-int8", (0.9, 0.8)),
        )
        of_floats, of_int8 = promised.model.golden[0].outputs
        assert (of_floats.variants, of_int8.variants) == (("onnx-fp32",), ("onnx-int8",))
        return of_floats.maximum_difference

    assert allow(0.0) < allow(0.1) < allow(0.2)


def test_a_case_that_correct_engines_answer_from_far_other_outputs_is_left_out_and_told() -> None:
    moved = run("onnx-int8", (0.9, 0.8), engine="openvino", moved=9.0)
    same = run("onnx-int8", (0.9, 0.8))
    promised = make_promise(
        run("onnx-fp32", (0.9, 0.8)), same, replace(moved, outputs=(moved.outputs[0], same.outputs[1]))
    )
    assert [case.name for case in promised.model.golden] == ["golden-2"]
    (note,) = promised.notes
    assert "left out: golden case golden-1: outputs of onnx-int8 in openvino 1.0 (exact) differ" in note


def test_an_engine_whose_outputs_lie_far_off_in_most_cases_is_told_and_allows_nothing() -> None:
    promised = make_promise(
        run("onnx-fp32", (0.9, 0.8)),
        run("onnx-fp32", (0.9, 0.7), engine="openvino", moved=9.0),
        run("onnx-int8", (0.9, 0.8)),
    )
    assert minima(promised) == pytest.approx([0.85, 0.75])
    (note,) = promised.notes
    assert "onnx-fp32 in openvino 1.0 (exact) gives far other outputs in 2 of 2 golden cases" in note


def test_floats_are_compared_with_one_another_and_quantized_forms_with_themselves() -> None:
    forms = [form(name) for name in ("onnx-int8", "onnx-fp32", "openvino-fp16", "tflite-int8")]
    assert group_same(forms) == (("onnx-fp32", "openvino-fp16"), ("onnx-int8",), ("tflite-int8",))
