"""Is an ONNX file described as the onnx package wrote it?"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import Facts
from shoal_converters.inspection.onnx_file import read_onnx

WEIGHTS = np.ones((4, 3), np.float32)


def save(folder: Path, nodes: list[Any], constants: list[Any], **more: Any) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        constants,
    )
    model = helper.make_model(graph, producer_name="tests", producer_version="1.2", **more)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def dense(folder: Path, *, dtype: str = "float32") -> Path:
    weights = numpy_helper.from_array(WEIGHTS.astype(dtype), "w")
    opsets = [helper.make_opsetid("", 17)]
    return save(folder, [helper.make_node("MatMul", ["x", "w"], ["y"])], [weights], opset_imports=opsets, ir_version=8)


def quantized(folder: Path, *, zero_point: int = 3) -> Path:
    """A QDQ model with a bias of int32, as ONNX Runtime's quantizer writes them."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "s"], ["wd"]),
        helper.make_node("DequantizeLinear", ["bq", "s"], ["bd"]),
        helper.make_node("Gemm", ["xd", "wd", "bd"], ["y"]),
    ]
    constants = {
        "s": np.float32(0.1),
        "z": np.uint8(zero_point),
        "wq": np.ones((4, 3), np.int8),
        "bq": np.ones(3, np.int32),
    }
    return save(folder, nodes, [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])


def test_says_inputs_outputs_versions_operators_and_parameters(tmp_path: Path) -> None:
    facts = read_onnx(dense(tmp_path))
    assert [tensor.words for tensor in facts.inputs] == ["x float32 [batch, 4]"]
    assert [tensor.words for tensor in facts.outputs] == ["y float32 [batch, 3]"]
    assert facts.versions == {"IR": "8", "opset ai.onnx": "17", "written by": "tests 1.2"}
    assert [(one.name, one.count) for one in facts.operators] == [("MatMul", 1)]
    assert (facts.parameters, facts.parameter_bytes, facts.precision, facts.traits) == (12, 48, "fp32", ())


def test_knows_half_precision_by_the_weights(tmp_path: Path) -> None:
    facts = read_onnx(dense(tmp_path, dtype="float16"))
    assert (facts.precision, facts.parameter_bytes, facts.traits) == ("fp16", 24, ("float16-operators",))


def test_says_why_tensorrt_would_refuse_a_quantized_model(tmp_path: Path) -> None:
    facts = read_onnx(quantized(tmp_path))
    assert (facts.precision, facts.how_quantized) == (
        "int8",
        "static INT8 in QDQ form: 1 QuantizeLinear, 3 DequantizeLinear",
    )
    assert facts.traits == ("quantized-bias", "asymmetric-quantization")


def test_zero_points_of_zero_are_symmetric(tmp_path: Path) -> None:
    assert "asymmetric-quantization" not in read_onnx(quantized(tmp_path, zero_point=0)).traits


def test_counts_operators_in_branches_and_names_custom_ones(tmp_path: Path) -> None:
    def branch(operator: str, domain: str) -> Any:
        node = helper.make_node(operator, ["x"], [f"{operator}_y"], domain=domain)
        value = helper.make_tensor_value_info(f"{operator}_y", TensorProto.FLOAT, None)
        return helper.make_graph([node], operator, [], [value])

    condition = numpy_helper.from_array(np.array(True), "c")
    chosen = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu", ""), else_branch=branch("Gizmo", "org.example")
    )
    facts = read_onnx(save(tmp_path, [chosen], [condition]))
    assert {one.name for one in facts.operators} == {"If", "Relu", "Gizmo"}
    assert facts.custom_operators == ("org.example.Gizmo",)
    assert "control-flow" in facts.traits


def test_names_files_that_hold_weights_and_never_opens_them(tmp_path: Path) -> None:
    constant = numpy_helper.from_array(WEIGHTS, "w")
    constant.ClearField("raw_data")
    constant.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../../etc/passwd"), ("length", str(2 << 30))):
        constant.external_data.add(key=key, value=value)
    facts = read_onnx(save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [constant]))
    assert (facts.external_files, facts.traits) == (("../../etc/passwd",), ("external-files",))
    assert "which is not a file beside this one" in facts.notes[0]


def test_a_tensor_that_claims_gigabytes_is_only_counted(tmp_path: Path) -> None:
    constant = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**20, 2**20])
    facts = read_onnx(save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [constant]))
    assert (facts.parameters, facts.parameter_bytes) == (2**40, 2**42)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_cut_or_damaged_file_is_refused_or_read(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(dense(tmp_path).read_bytes())
    at = data.draw(st.integers(1, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[at:]
    else:
        raw[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "damaged.onnx"
    path.write_bytes(raw)
    try:
        assert isinstance(read_onnx(path), Facts)
    except BadModel as error:
        assert str(path) in str(error)


def test_refuses_an_empty_file_and_one_without_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(BadModel, match="the file is empty"):
        read_onnx(path)
    path.write_bytes(b"\x08\x08")
    with pytest.raises(BadModel, match="it holds no graph"):
        read_onnx(path)
