"""Are a board's answers to digits judged by the digits, and is the workbench's report read as it was written?"""

import json
import math
from typing import Any

import pytest
from shoal_fleet.command.demo.digits import Answered, Told, judge_answers, read_gain
from shoal_fleet.command.demo.items import Item
from shoal_fleet.command.errors import CommandError


def told(item: str, label: str, *, latency_ms: float = 1.0) -> Told:
    return Told(item, latency_ms=latency_ms, answer={"classes": [{"label": label, "score": 0.9}, {"label": "0"}]})


PLACED = {name: Item(name, "00" * 32, digit) for name, digit in (("a.png", "3"), ("b.png", "4"), ("c.png", "5"))}


def test_answers_are_right_where_the_first_class_is_the_digit() -> None:
    answers = [told("a.png", "3"), told("b.png", "7", latency_ms=5.0), told("c.png", "5", latency_ms=2.0)]
    assert judge_answers(answers, PLACED) == Answered(3, right=2, p50_ms=2.0)


def test_refused_item_is_a_wrong_answer_and_an_unknown_one_is_none() -> None:
    refused = Told("a.png", latency_ms=1.0, answer={})
    assert judge_answers([refused, told("unheard-of.png", "3")], PLACED) == Answered(1, right=0, p50_ms=1.0)
    assert math.isnan(judge_answers([], PLACED).p50_ms)


@pytest.mark.parametrize(
    ("answers", "right", "expected"), [(30, 30, True), (29, 29, False), (100, 95, True), (100, 94, False)]
)
def test_one_answer_in_twenty_may_be_wrong_and_few_answers_tell_nothing(
    answers: int, right: int, *, expected: bool
) -> None:
    assert Answered(answers, right=right, p50_ms=1.0).is_right is expected


def variant(name: str, size_bytes: int, value: float, p50_ms: float, **more: Any) -> dict[str, Any]:
    """As report.json has it: timed in two engines, with one thread and two, exactly and in shorter types."""
    own = {"engine": "onnxruntime", "precision": "exact", "threads": 1, "p50_ms": p50_ms, "rounds_ms": []}
    others = [
        {**own, "threads": 2, "p50_ms": 0.1},
        {**own, "engine": "openvino", "p50_ms": 0.2},
        {**own, "precision": "fast", "p50_ms": 0.3},
    ]
    fields = {"name": name, "size_bytes": size_bytes, "value": value, "speeds": [*others, own], "gains": []}
    return {**fields, "format": "onnx", **more}


FP32 = variant("onnx-fp32", 1000, 0.99, 6.0)
INT8 = variant("onnx-int8", 250, 0.98, 2.0, gains=["smaller", "faster"])


def write(*variants: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"name": "digits", "variants": variants, "missing": {}, **more}).encode()


def test_gain_is_that_of_the_boards_own_engine_and_threads() -> None:
    gain = read_gain(write(FP32, INT8), engine="onnxruntime")
    assert (gain.size_ratio, gain.speed_ratio, gain.claims) == (0.25, 3.0, ("smaller", "faster"))
    assert gain.accuracy == {"onnx-fp32": 0.99, "onnx-int8": 0.98}
    assert "0.25 × the size, 3.00 × as fast, so smaller and faster" in gain.words


def test_variant_that_was_not_timed_has_no_ratio() -> None:
    gain = read_gain(write(FP32, {**INT8, "speeds": []}), engine="onnxruntime")
    assert gain.speed_ratio is None
    assert "not timed" in gain.words


def test_variant_that_could_not_be_made_is_an_error_with_the_reason() -> None:
    with pytest.raises(CommandError, match="no onnx-int8: onnx isn't installed"):
        read_gain(write(FP32, missing={"onnx-int8": "onnx isn't installed"}), engine="onnxruntime")
