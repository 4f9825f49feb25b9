"""Is an ONNX file checked, made whole, and given shapes and a form that ONNX Runtime takes?"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from shoal_converters.errors import BadModel
from shoal_converters.paths.onnx_fp32 import convert
from shoal_wire.manifest import Tensor

from tests.unit.converters.paths.tiny_models import items, onnx_model, reference, request


def _save(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "source.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _answers(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(f"{path}", providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": call})[0] for call in items(4)])


def test_a_file_that_is_fine_stays_as_it_is_and_its_signature_is_told(tmp_path: Path) -> None:
    reply = convert(request(_save(onnx_model(), tmp_path), tmp_path / "out", "onnx-fp32"))
    assert reply.inputs == (Tensor("x", "float32", (-1, 8)),)
    assert reply.outputs == (Tensor("y", "float32", (-1, 4)),)
    assert (reply.made[0].bindings, reply.notes) == ((), ())
    written = tmp_path / "out" / "model.onnx"
    assert onnx.load(written) == onnx_model()
    assert np.allclose(_answers(written), reference(items(4)[:, 0]), atol=1e-6)


def test_lengths_that_the_recipe_knows_are_fixed_in_inputs_and_outputs(tmp_path: Path) -> None:
    wanted = Tensor("x", "float32", (3, 8))
    reply = convert(request(_save(onnx_model(), tmp_path), tmp_path / "out", "onnx-fp32", inputs=(wanted,)))
    assert reply.inputs == (wanted,)
    assert reply.outputs == (Tensor("y", "float32", (3, 4)),)


def test_names_of_the_recipe_are_bound_to_those_of_the_file(tmp_path: Path) -> None:
    wanted = Tensor("features", "float32", (-1, 8))
    reply = convert(request(_save(onnx_model(), tmp_path), tmp_path / "out", "onnx-fp32", inputs=(wanted,)))
    assert [(one.tensor, one.name) for one in reply.made[0].bindings] == [("features", "x")]


def test_another_signature_than_the_recipes_is_refused(tmp_path: Path) -> None:
    wanted = Tensor("x", "float32", (2, 9))
    with pytest.raises(BadModel, match=r"source.onnx: inputs: expected x float32\[2, 9\], found x float32\[2, 8\]"):
        convert(request(_save(onnx_model(), tmp_path), tmp_path / "out", "onnx-fp32", inputs=(wanted,)))


def test_what_onnx_runtime_lacks_in_a_new_opset_is_converted_to_an_older_one(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("GlobalLpPool", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    reply = convert(request(_save(model, tmp_path), tmp_path / "out", "onnx-fp32"))
    assert "in opset 21, as ONNX Runtime refused it as it is: Could not find an implementation" in reply.notes[0]
    session = onnxruntime.InferenceSession(f"{tmp_path}/out/model.onnx", providers=["CPUExecutionProvider"])
    array = np.random.default_rng(0).random((1, 2, 3, 3), np.float32)
    (found,) = session.run(None, {"x": array})
    assert np.allclose(found[0, :, 0, 0], np.linalg.norm(array[0].reshape(2, 9), axis=1))


def test_weights_in_another_file_are_put_into_the_one(tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(onnx_model(), source, save_as_external_data=True, location="w.bin", size_threshold=0)
    convert(request(source, tmp_path / "out", "onnx-fp32"))
    (tmp_path / "w.bin").unlink()
    assert np.allclose(_answers(tmp_path / "out" / "model.onnx"), reference(items(4)[:, 0]), atol=1e-6)


def test_a_missing_file_of_weights_is_named(tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(onnx_model(), source, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(BadModel, match=r"w\.bin"):
        convert(request(source, tmp_path / "out", "onnx-fp32"))


@pytest.mark.parametrize("content", [b"", b"no model at all", onnx_model().SerializeToString()[:300]])
def test_broken_files_are_refused(content: bytes, tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    source.write_bytes(content)
    with pytest.raises(BadModel, match=r"source\.onnx: not a valid ONNX file"):
        convert(request(source, tmp_path / "out", "onnx-fp32"))


def test_operators_that_onnx_runtime_doesnt_have_are_told(tmp_path: Path) -> None:
    model = onnx_model()
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.graph.node[1].domain, model.graph.node[1].op_type = "mine", "Squash"
    with pytest.raises(BadModel, match=r"ONNX Runtime doesn't take it as it is: .*Squash"):
        convert(request(_save(model, tmp_path), tmp_path / "out", "onnx-fp32"))


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    model = onnx_model()
    broken = np.full((8, 16), np.nan, np.float32)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(broken, "w1"))
    with pytest.raises(BadModel, match="the weights w1 hold NaN"):
        convert(request(_save(model, tmp_path), tmp_path / "out", "onnx-fp32"))


def test_inputs_that_are_no_tensors_are_refused(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    one = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("SequenceLength", ["s"], ["n"])], "g", [sequence], [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(BadModel, match="s: expected a tensor of known rank"):
        convert(request(_save(model, tmp_path), tmp_path / "out", "onnx-fp32"))


def test_lengths_that_paddle2onnx_calls_by_a_question_mark_are_fixed_one_by_one(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["any", "?", "?"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    wanted = Tensor("x", "float32", (-1, 48, 192))
    reply = convert(request(_save(model, tmp_path), tmp_path / "out", "onnx-fp32", inputs=(wanted,)))
    assert reply.inputs == (wanted,)
    assert not reply.made[0].bindings
