"""How forms are compared with the original, and what is told of those that can't answer."""

from typing import Any

import pytest
from shoal_converters.building.judging import Judge
from shoal_converters.errors import BuildFailed
from shoal_converters.evaluation import Unfit
from shoal_converters.tasks.anomaly import Anomaly

from tests.unit.converters.building.contest import RIGHT, FakeEngine, form, items, make_judge, say


def test_a_form_is_described_by_what_it_loses_against_the_original() -> None:
    engine = FakeEngine({"original": say(*RIGHT), "onnx-int8": say("cat", "dog", "cat", "cat")})
    contender = make_judge(engine).consider(form("onnx-int8"))
    found = contender.result
    assert (found.value, found.drop, found.agreement) == (0.75, 0.25, 0.75)
    assert found.judged_in == "fake 1.0"
    assert {(one.expected, one.answered, one.original, one.variant) for one in found.confusions} == {
        ("dog", "dog", 2, 1),
        ("dog", "cat", 0, 1),
    }
    assert [(one.item, one.expected) for one in found.worst] == [("3", "dog")]
    assert contender.judged is not None


def test_answers_that_only_moved_a_little_are_no_worst_examples() -> None:
    """Rated by the share of the expected label."""
    engine = FakeEngine({"original": say(*RIGHT), "onnx-fp16": say(*RIGHT, score=0.899)})
    assert make_judge(engine).consider(form("onnx-fp16")).result.worst == ()


def test_what_is_better_than_the_original_has_a_negative_drop() -> None:
    engine = FakeEngine({"original": say("cat", "dog", "cat", "cat"), "onnx-fp16": say(*RIGHT)})
    assert make_judge(engine).consider(form("onnx-fp16")).result.drop == -0.25


def test_the_originals_own_files_under_another_name_are_not_asked_again() -> None:
    engine = FakeEngine({"original": say(*RIGHT)})
    judge = make_judge(engine)
    contender = judge.consider(form("onnx-fp32", b"original"))
    assert engine.asked == ["original"]
    assert (contender.form.name, contender.result.drop) == ("onnx-fp32", 0.0)


def test_a_form_that_fails_stays_with_its_reason_and_without_a_value() -> None:
    contender = make_judge(FakeEngine({"original": say(*RIGHT)})).consider(form("onnx-fp16"))
    assert contender.judged is None
    assert contender.result.value is None
    assert contender.result.reason == "0: output 'y' is missing"
    assert contender.result.size_bytes == len(b"onnx-fp16")


def test_an_original_that_fails_is_no_error_of_a_variant() -> None:
    with pytest.raises(Unfit, match="0: output 'y' is missing"):
        make_judge(FakeEngine({}))


def test_answers_of_another_task_are_named() -> None:
    answers: list[dict[str, Any]] = [{"values": {"cat": 0.5}}] * len(RIGHT)
    with pytest.raises(BuildFailed, match=r"gives answers with \['values'\], but classification needs 'classes'"):
        make_judge(FakeEngine({"original": answers}))


def test_a_metric_that_is_not_defined_for_the_set_is_refused() -> None:
    """An area under the curve needs both kinds."""
    same = [one.__class__(name=one.name, raw=one.raw, expected={"is_anomalous": True}) for one in items()]
    answers = [{"score": 0.7, "is_anomalous": True, "threshold": 0.5}] * len(same)
    with pytest.raises(BuildFailed, match="is not defined"):
        Judge(form("original"), same, task=Anomaly(), answer=FakeEngine({"original": answers}))
