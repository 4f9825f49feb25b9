"""Are TFLite files read as they are, and quantized so that LiteRT computes nearly what NumPy does of the original?"""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from shoal_converters.errors import BadModel
from shoal_converters.paths import tflite_fp32, tflite_quantized
from shoal_converters.paths.messages import Made, Request
from shoal_wire.manifest import Tensor

from tests.unit.converters.paths.tiny_models import items, reference, request, tflite_model, write_calls


def _request(folder: Path, *variants: str, content: bytes | None = None, **options: object) -> Request:
    source = folder / "source.tflite"
    source.write_bytes(tflite_model() if content is None else content)
    calls = write_calls(folder / "calls.npz", list(items(32)))
    return request(source, folder / "out", *variants, calibration=f"{calls}", options=options)


def _run(path: Path, calls: np.ndarray) -> np.ndarray:
    interpreter = Interpreter(model_path=f"{path}", num_threads=1)
    interpreter.allocate_tensors()
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert (taken["name"], given["name"]) == ("x", "y")
    answers = []
    for call in calls:
        interpreter.set_tensor(taken["index"], call)
        interpreter.invoke()
        answers.append(interpreter.get_tensor(given["index"]))
    return np.concatenate(answers)


def _error(folder: Path, made: Made) -> float:
    right = reference(items(64, seed=5)[:, 0])
    found = _run(folder / "out" / made.files[0], items(64, seed=5))
    return float(np.sqrt(np.square(found - right).mean() / np.square(right).mean()))


def test_a_file_stays_as_it_is(tmp_path: Path) -> None:
    reply = tflite_fp32.convert(_request(tmp_path, "tflite-fp32"))
    assert (tmp_path / "out" / "model.tflite").read_bytes() == tflite_model()
    assert (reply.inputs, reply.outputs) == ((Tensor("x", "float32", (1, 8)),), (Tensor("y", "float32", (1, 4)),))
    assert (reply.made[0].precision, reply.made[0].bindings) == ("fp32", ())
    assert _error(tmp_path, reply.made[0]) < 1e-6


@pytest.mark.parametrize("content", [b"", b"no model", tflite_model()[:200]])
def test_broken_files_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"source\.tflite: (not a TFLite file|LiteRT doesn't take it)"):
        tflite_fp32.convert(_request(tmp_path, "tflite-fp32", content=content))


def test_float16_weights_halve_the_constants(tmp_path: Path) -> None:
    (made,) = tflite_quantized.convert(_request(tmp_path, "tflite-fp16")).made
    assert 0 < _error(tmp_path, made) < 2e-3


def test_int8_keeps_float_inputs_and_outputs_under_their_names(tmp_path: Path) -> None:
    reply = tflite_quantized.convert(_request(tmp_path, "tflite-int8"))
    assert (reply.made[0].bindings, reply.made[0].runtimes) == ((), ())
    assert [layer.operator for layer in reply.layers] == ["FULLY_CONNECTED", "TANH", "FULLY_CONNECTED"]
    assert 0 < _error(tmp_path, reply.made[0]) < 0.05


def test_dynamic_files_are_only_for_runtimes_that_compute_them_right(tmp_path: Path) -> None:
    (made,) = tflite_quantized.convert(_request(tmp_path, "tflite-int8-dynamic")).made
    assert "tflite-runtime" not in made.runtimes and "litert" in made.runtimes
    assert 0 < _error(tmp_path, made) < 0.03


def test_layers_that_are_to_stay_in_float_do(tmp_path: Path) -> None:
    reply = tflite_quantized.convert(_request(tmp_path, "tflite-int8", float_layers=["h;", "t;"]))
    assert [layer.name for layer in reply.layers] == ["y;"]
    interpreter = Interpreter(model_path=f"{tmp_path}/out/{reply.made[0].files[0]}")
    dtypes = {one["name"]: one["dtype"] for one in interpreter.get_tensor_details()}
    assert (dtypes["h/weight"], dtypes["y/weight"]) == (np.float32, np.int8)


def test_single_layers_can_be_measured(tmp_path: Path) -> None:
    reply = tflite_quantized.convert(_request(tmp_path, "tflite-int8", groups=[["h;"], ["h;", "t;", "y;"], []]))
    one, every, none = reply.changes
    assert one is not None and every is not None
    assert 0 < one < every < 0.1
    assert none == 0


def test_a_file_with_float16_weights_is_its_own_float16_variant_and_can_be_quantized(tmp_path: Path) -> None:
    content = tflite_model(is_half=True)
    reply = tflite_quantized.convert(_request(tmp_path, "tflite-fp16", "tflite-int8", content=content))
    half, whole = reply.made
    assert (tmp_path / "out" / half.files[0]).read_bytes() == content
    assert 0 < _error(tmp_path, whole) < 0.05


def test_what_is_quantized_already_is_refused(tmp_path: Path) -> None:
    (made,) = tflite_quantized.convert(_request(tmp_path, "tflite-int8")).made
    content = (tmp_path / "out" / made.files[0]).read_bytes()
    for name in ("again", "whole"):
        (tmp_path / name).mkdir()
    with pytest.raises(BadModel, match="quantized already; its float original is needed"):
        tflite_quantized.convert(_request(tmp_path / "again", "tflite-int8", content=content))
    (given,) = tflite_fp32.convert(_request(tmp_path / "whole", "tflite-fp32", content=content)).made
    assert given.precision == "int8"


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        tflite_quantized.convert(_request(tmp_path / name, "tflite-int8"))
    a, b = ((tmp_path / name / "out" / "tflite-int8.tflite").read_bytes() for name in "ab")
    assert a == b
