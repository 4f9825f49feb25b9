"""What of a build is written where: the release with its report, or the report alone."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.building.job import Job, Order
from shoal_converters.building.judging import Contender
from shoal_converters.building.release import check_places, describe_model, write_build, write_refusal
from shoal_converters.building.reporting import make_report
from shoal_converters.building.wanted import Wanted
from shoal_converters.errors import BuildFailed
from shoal_converters.forms import Signature
from shoal_converters.recipe import Data, Recipe, Source
from shoal_converters.report.results import Report
from shoal_converters.source_model import SourceModel
from shoal_converters.tasks.classification import Classification
from shoal_wire.manifest import GoldenCase, Model, Operation, Tensor, parse_draft

from tests.unit.converters.building.contest import LABELS, RIGHT, FakeEngine, form, items, make_judge, say

SIGNATURE = Signature(inputs=(Tensor("x", "float32", (1, 2)),), outputs=(Tensor("y", "float32", (1, 2)),))
PRE = (Operation("table.decode_csv"), Operation("table.feed", {"input": "x", "columns": 2}))
POST = (
    Operation("scores.read", {"output": "y", "activation": "softmax"}),
    Operation("classes.top", {"labels": list(LABELS)}),
)


def make_job(out: Path) -> Job:
    recipe = Recipe(
        name="pets",
        version=3,
        created_at="2026-01-01",
        licence="MIT",
        provenance="Trained by a test.",
        task="classification",
        labels=LABELS,
        source=Source(path="pets.onnx"),
        pre=PRE,
        post=POST,
        evaluation=Data(path="held-out"),
    )
    order = Order(
        recipe=recipe, recipe_folder=out.parent, out=out, command="shoal-convert build", interpreters={}, profiles=()
    )
    return Job(
        order=order,
        source=SourceModel(path="/pets.onnx", format="onnx", code_folder="", sha256="ab" * 32),
        task=Classification(),
        pipeline=Pipeline(pre=PRE, post=POST),
        wanted=Wanted(("onnx-fp32", "onnx-int8"), ("openvino-fp32",)),
        calibration=(),
        evaluation=items(),
    )


def contend(*names: str, wrong: Sequence[str] = ()) -> tuple[list[Contender], Any]:
    answers = {name: say(*(("dog", "dog", "cat", "dog") if name in wrong else RIGHT)) for name in names}
    judge = make_judge(FakeEngine({"original": say(*RIGHT), **answers}))
    return [judge.consider(form(name)) for name in names], judge


def make_build(job: Job) -> tuple[Model, dict[str, bytes], Report]:
    """Two variants, of which the report says that they are released."""
    contenders, judge = contend("onnx-fp32", "onnx-int8")
    case = GoldenCase("a", "a.txt", {"label": "cat"}, Operation("classes.first", {"minimum_score": 0.5}), "a test")
    model = replace(describe_model(job, SIGNATURE, contenders), golden=(case,))
    report = make_report(job, judge, contenders, compared=None, missing={}, notes=())
    report = replace(report, variants=tuple(replace(one, is_released=True) for one in report.variants))
    contents = {name: content for one in contenders for name, content in one.form.files.items()}
    return model, contents | {"a.txt": b"raw"}, report


def read_report(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "report.json").read_bytes())
    return document


def test_the_smallest_type_comes_first_with_the_tasks_own_metric(tmp_path: Path) -> None:
    contenders, _ = contend("onnx-fp32", "openvino-fp16", "onnx-int8", wrong=["onnx-int8"])
    model = describe_model(make_job(tmp_path), SIGNATURE, contenders)
    assert [one.name for one in model.variants] == ["onnx-int8", "openvino-fp16", "onnx-fp32"]
    (accuracy,) = model.variants[0].accuracy
    assert (accuracy.metric, accuracy.value, accuracy.samples) == ("top-1 accuracy", 0.75, 4)
    assert accuracy.dataset == "held-out (fake 1.0)"


def test_a_release_holds_what_it_names_and_two_reports_of_its_digest(tmp_path: Path) -> None:
    job = make_job(tmp_path / "out")
    model, contents, report = make_build(job)
    written = write_build(model, contents, report, recipe=job.recipe, folder=tmp_path / "out")
    raw = (tmp_path / "out" / "release.json").read_bytes()
    draft = parse_draft(raw)
    assert {file.name for file in draft.files} == {"onnx-fp32.onnx", "onnx-int8.onnx", "a.txt"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(file.path for file in draft.files),
        "release.json",
        "report.html",
        "report.json",
    }
    assert draft.provenance == f"Trained by a test. Made from pets.onnx (SHA-256 {'ab' * 32})."
    digest = hashlib.sha256(raw).hexdigest()
    assert written.manifest_sha256 == read_report(tmp_path / "out")["manifest_sha256"] == digest
    assert digest in (tmp_path / "out" / "report.html").read_text()


def test_what_may_not_be_released_is_reported_beside_what_was_there_before(tmp_path: Path) -> None:
    job = make_job(tmp_path / "out")
    model, contents, report = make_build(job)
    write_build(model, contents, report, recipe=job.recipe, folder=tmp_path / "out")
    before = (tmp_path / "out" / "release.json").read_bytes()
    page = write_refusal(report, reason="no golden case", folder=tmp_path / "out")
    assert page == tmp_path / "out.report" / "report.html"
    assert (tmp_path / "out" / "release.json").read_bytes() == before
    told = read_report(tmp_path / "out.report")
    assert [(one["is_released"], one["reason"]) for one in told["variants"]] == [(False, "no golden case")] * 2
    assert "Nothing of pets version 3 is released" in page.read_text()


def test_the_report_of_a_refusal_goes_with_the_next_release(tmp_path: Path) -> None:
    job = make_job(tmp_path / "out")
    model, contents, report = make_build(job)
    write_refusal(report, reason="no golden case", folder=tmp_path / "out")
    write_build(model, contents, report, recipe=job.recipe, folder=tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_variants_that_no_target_runs_are_noted(tmp_path: Path) -> None:
    _, _, report = make_build(make_job(tmp_path))
    assert report.notes == ("No target runs openvino-fp32: not made, since the recipe names none of them.",)


def test_places_are_looked_at_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "out.report").mkdir()
    (tmp_path / "out.report" / "thesis.tex").write_text("mine")
    with pytest.raises(BuildFailed, match=r"out\.report: holds other things"):
        check_places(tmp_path / "out")
