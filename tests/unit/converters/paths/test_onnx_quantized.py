"""Do float16 and INT8 files compute what NumPy does of the original, and with the integers that were asked for?"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.paths import onnx_fp16, onnx_int8
from shoal_converters.paths.messages import Request

from tests.unit.converters.paths.tiny_models import items, onnx_model, reference, request, write_calls


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path works in a folder of its own."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def _request(folder: Path, *variants: str, model: onnx.ModelProto | None = None, **options: object) -> Request:
    source = folder / "source.onnx"
    source.write_bytes((model or onnx_model()).SerializeToString())
    calls = write_calls(folder / "calls.npz", list(items(128)))
    return request(source, folder / "out", *variants, calibration=f"{calls}", options=options)


def _error(path: Path) -> float:
    """Relative root mean square of what is wrong, on other items than those of the calibration set."""
    session = onnxruntime.InferenceSession(f"{path}", providers=["CPUExecutionProvider"])
    right = reference(items(64, seed=5)[:, 0])
    found = np.concatenate([session.run(None, {"x": call})[0] for call in items(64, seed=5)])
    return float(np.sqrt(np.square(found - right).mean() / np.square(right).mean()))


def _constants(path: Path) -> dict[str, np.ndarray]:
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer}


def test_float16_halves_the_weights_and_keeps_inputs_and_outputs(tmp_path: Path) -> None:
    (made,) = onnx_fp16.convert(_request(tmp_path, "onnx-fp16")).made
    path = tmp_path / "out" / made.files[0]
    model = onnx.load(path)
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert _constants(path)["w1"].dtype == np.float16
    assert 0 < _error(path) < 2e-3


@pytest.mark.parametrize("are_nodes", [False, True])
def test_variances_that_float16_cannot_hold_are_left_in_float32(are_nodes: bool, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    values = {"scale": (1, 2), "bias": (0, 1), "mean": (0, 0), "variance": (1e-9, 4e-9)}
    constants = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in values.items()]
    nodes = [helper.make_node("BatchNormalization", ["x", *values], ["y"], name="normalise", epsilon=0.0)]
    if are_nodes:
        nodes = [helper.make_node("Constant", [], [one.name], value=one) for one in constants] + nodes
    graph = helper.make_graph(nodes, "g", [x], [y], [] if are_nodes else constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    reply = onnx_fp16.convert(_request(tmp_path, "onnx-fp16", model=model))
    assert reply.notes == ("left in float32, as float16 isn't enough for them: 1 BatchNormalization",)
    session = onnxruntime.InferenceSession(
        f"{tmp_path}/out/{reply.made[0].files[0]}", providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": np.array([[1e-3, 1e-3]], np.float32)})
    assert np.allclose(found, [[1e-3 / 1e-9**0.5, 2e-3 / 4e-9**0.5 + 1]], rtol=2e-3)


def test_int8_is_near_the_original_with_unsigned_activations_and_signed_weights(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8"))
    path = tmp_path / "out" / reply.made[0].files[0]
    assert [(layer.name, layer.operator) for layer in reply.layers] == [("wide", "Gemm"), ("head", "Gemm")]
    constants = _constants(path)
    assert constants["w1_quantized"].dtype == np.int8
    assert constants["w1_scale"].shape == (16,)
    assert constants["x_zero_point"].dtype == np.uint8
    assert np.abs(constants["w1_quantized"]).max() <= 64  # products of 8 by 7 bits don't overflow any CPU's sums
    assert 0 < _error(path) < 0.06


def test_a_file_of_an_opset_without_scales_by_channel_has_them_too(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", model=onnx_model(opset=11)))
    path = tmp_path / "out" / reply.made[0].files[0]
    assert [layer.name for layer in reply.layers] == ["wide", "head"]
    assert _constants(path)["w1_scale"].shape == (16,)
    assert 0 < _error(path) < 0.06


def test_a_model_whose_layers_all_lie_in_branches_is_refused_with_their_number(tmp_path: Path) -> None:
    inner = onnx_model().graph
    del inner.input[:]  # a branch sees the tensors around it
    branches = {"then_branch": inner, "else_branch": inner}
    x, y = onnx_model().graph.input[0], onnx_model().graph.output[0]
    has_rows = helper.make_tensor_value_info("has_rows", TensorProto.BOOL, [])
    graph = helper.make_graph([helper.make_node("If", ["has_rows"], ["y"], **branches)], "g", [x, has_rows], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(BadModel, match="no node that ONNX Runtime's tool quantizes; 4 Gemm lie in branches or loops"):
        onnx_int8.convert(_request(tmp_path, "onnx-int8", model=model))


def test_one_scale_for_a_tensor_where_that_is_asked_for(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", per_channel=False))
    assert _constants(tmp_path / "out" / reply.made[0].files[0])["w1_scale"].shape == ()


def test_for_tensorrt_zero_points_are_zero_and_biases_stay_float(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8-tensorrt"))
    path = tmp_path / "out" / reply.made[0].files[0]
    constants = _constants(path)
    zero_points = [array for name, array in constants.items() if name.endswith("zero_point")]
    assert zero_points and all(array.dtype == np.int8 and not array.any() for array in zero_points)
    assert constants["b1"].dtype == np.float32
    assert not any(array.dtype == np.int32 for array in constants.values())
    assert 0 < _error(path) < 0.06


def test_layers_that_are_to_stay_in_float_do(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", float_layers=["wide"]))
    constants = _constants(tmp_path / "out" / reply.made[0].files[0])
    assert [layer.name for layer in reply.layers] == ["head"]
    assert "w2_quantized" in constants and "w1_quantized" not in constants


def test_weights_of_the_full_range_are_made_where_asked_for(tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", full_range=True))
    weights = _constants(tmp_path / "out" / reply.made[0].files[0])["w1_quantized"]
    assert np.abs(weights.astype(int)).max() == 127


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_other_methods_come_near_the_original_too(method: str, tmp_path: Path) -> None:
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", method=method))
    assert method in reply.made[0].how
    assert 0 < _error(tmp_path / "out" / reply.made[0].files[0]) < 0.2


def test_the_layer_that_8_bits_break_is_the_one_that_moves_the_outputs(tmp_path: Path) -> None:
    groups = [["wide"], ["head"]]
    reply = onnx_int8.convert(_request(tmp_path, "onnx-int8", model=onnx_model(scale=1e4), groups=groups))
    wide, head = reply.changes
    assert reply.made == ()
    assert wide is not None and head is not None
    assert wide > 0.5 > 0.05 > head > 0


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for name in ("a", "b"):
        (tmp_path / name / "work").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name / "work")
        onnx_int8.convert(_request(tmp_path / name, "onnx-int8"))
        written.append((tmp_path / name / "out" / "model.onnx").read_bytes())
    assert written[0] == written[1]


def test_a_method_that_the_tool_doesnt_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="expected a method out of minmax, percentile, entropy, found 'magic'"):
        onnx_int8.convert(_request(tmp_path, "onnx-int8", method="magic"))


def test_a_switch_of_another_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="ONNX Runtime: has no smooth"):
        onnx_int8.convert(_request(tmp_path, "onnx-int8", smooth=True))
