"""Do real engines get a speed, and what can't be run a reason?"""

import onnx
import pytest
from onnx import TensorProto, helper
from shoal_converters.forms import Form
from shoal_converters.speed import Timings, measure_speed
from shoal_wire.manifest import Model, Operation, Tensor

ITEMS = (b"1,2,3\n", b"4,5,6\n")
MODEL = Model(
    name="sum",
    task="regression",
    inputs=(Tensor("x", "float32", (1, 3)),),
    outputs=(Tensor("y", "float32", (1, 1)),),
    pre=(Operation("table.decode_csv"), Operation("table.feed", {"input": "x", "columns": 3})),
    post=(Operation("values.read", {"output": "y", "names": ["sum"]}),),
    variants=(),
    golden=(),
)


def sum_in_onnx() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(onnx.ModelProto.SerializeToString(model))


def form(name: str, content: bytes) -> Form:
    model_format, _, precision = name.partition("-")
    return Form(name=name, format=model_format, precision=precision, files={f"{name}.model": content})


@pytest.fixture(scope="module")
def timings() -> Timings:
    forms = [form("onnx-fp32", sum_in_onnx()), form("onnx-broken", b"no model"), form("coreml-fp16", b"elsewhere")]
    return measure_speed(forms, ITEMS, model=MODEL, budget_s=3.0)


def test_every_engine_that_reads_a_variant_gets_a_speed(timings: Timings) -> None:
    timing = timings.variants["onnx-fp32"]
    assert timing.not_timed == {}
    assert {(speed.engine, speed.precision) for speed in timing.speeds if speed.threads == 1} >= {
        ("onnxruntime", "exact"),
        ("openvino", "exact"),
    }
    for speed in timing.speeds:
        assert 0 < speed.p50_ms <= speed.p95_ms
        assert speed.answers_per_s > 0
        assert speed.memory_bytes > 10_000_000
        assert len(speed.rounds_ms) == timings.rounds >= 1
        assert (speed.joules is None) == (timings.meter == "")


def test_engines_that_refuse_a_variant_are_named_with_their_reason(timings: Timings) -> None:
    timing = timings.variants["onnx-broken"]
    assert timing.speeds == ()
    assert {"onnxruntime (exact)", "openvino (exact)"} <= set(timing.not_timed)
    assert "onnxruntime doesn't take the model" in timing.not_timed["onnxruntime (exact)"]


def test_a_format_that_nothing_reads_here_says_where_it_runs(timings: Timings) -> None:
    timing = timings.variants["coreml-fp16"]
    assert timing.speeds == ()
    assert "Apple" in timing.not_timed["coreml"]
