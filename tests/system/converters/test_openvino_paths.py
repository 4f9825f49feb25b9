"""Does a model's form for OpenVINO, of whatever precision, compute what the model does?"""

from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.errors import PathFailed
from shoal_converters.forms import Form
from shoal_converters.paths import PATHS
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.process import run_path
from shoal_converters.quantization.tools import read_form
from shoal_converters.spread import run_variant
from shoal_wire.manifest import Operation, Tensor

from tests.unit.converters.paths.tiny_models import items, onnx_model, reference, tflite_model, write_calls

TIMEOUT_S = 300.0
FILES = ("model.xml", "model.bin")
INPUTS = (Tensor("x", "float32", (-1, 8)),)
OUTPUTS = (Tensor("y", "float32", (-1, 4)),)

PIPELINE = Pipeline(
    pre=(Operation("table.decode_csv"), Operation("table.feed", {"input": "x", "columns": 8})),
    post=(Operation("values.read", {"output": "y", "names": ["a", "b", "c", "d"]}),),
)


def _convert(module: str, source: Path, source_format: str, variant: str, folder: Path, **options: object) -> Reply:
    (path,) = (path for path in PATHS if path.module == module)
    folder.mkdir()
    calibration = write_calls(folder.with_suffix(".npz"), list(items(64)))
    request = Request(
        source=f"{source}",
        format=source_format,
        folder=f"{folder}",
        variants=(variant,),
        inputs=INPUTS,
        outputs=OUTPUTS,
        calibration=f"{calibration}",
        options=options,
    )
    return run_path(path, request, interpreters={}, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the model as ONNX, as TFLite and, in `ir`, as OpenVINO's representation of the first."""
    folder = tmp_path_factory.mktemp("openvino")
    (folder / "source.onnx").write_bytes(onnx_model().SerializeToString())
    (folder / "source.tflite").write_bytes(tflite_model())
    _convert("openvino_fp32", folder / "source.onnx", "onnx-fp32", "openvino-fp32", folder / "ir")
    return folder


def _error(form: Form) -> float:
    """Relative root mean square of what is wrong."""
    right = reference(items(32, seed=5)[:, 0])
    rows = [",".join(map(repr, map(float, call[0]))).encode() for call in items(32, seed=5)]
    with run_variant(form.variant, form.files, engine="openvino", inputs=INPUTS, outputs=OUTPUTS) as running:
        found = np.concatenate([running.answer_with_outputs(row, pipeline=PIPELINE)[1][0]["y"] for row in rows])
    return float(np.sqrt(np.square(found - right).mean() / np.square(right).mean()))


def test_full_and_half_precision(folder: Path) -> None:
    again = _convert("openvino_fp32", folder / "source.onnx", "onnx-fp32", "openvino-fp32", folder / "again")
    full = read_form(again.made[0], folder=folder / "again")
    assert full.bindings == ()
    assert list(full.files) == ["openvino-fp32.xml", "openvino-fp32.bin"]
    assert all((folder / "ir" / name).read_bytes() == (folder / "again" / name).read_bytes() for name in FILES)
    assert _error(full) < 1e-5
    reply = _convert("openvino_fp16", folder / "ir" / "model.xml", "openvino-fp32", "openvino-fp16", folder / "half")
    half = read_form(reply.made[0], folder=folder / "half")
    assert len(half.files["openvino-fp16.bin"]) < 0.6 * len(full.files["openvino-fp32.bin"])
    assert 0 < _error(half) < 2e-3


def test_from_tflite_under_the_names_of_the_signature(folder: Path) -> None:
    reply = _convert("tflite_openvino", folder / "source.tflite", "tflite-fp32", "openvino-fp32", folder / "lite")
    assert _error(read_form(reply.made[0], folder=folder / "lite")) < 1e-5


def test_int8_and_the_sensitivity_of_single_layers(folder: Path) -> None:
    ir = folder / "ir" / "model.xml"
    reply = _convert("openvino_int8", ir, "openvino-fp32", "openvino-int8", folder / "int8")
    assert {layer.operator for layer in reply.layers} == {"MatMul"}
    form = read_form(reply.made[0], folder=folder / "int8")
    assert b'element_type="i8"' in form.files["openvino-int8.xml"]
    assert 0 < _error(form) < 0.05
    groups = [[layer.name for layer in reply.layers], []]
    measured = _convert(
        "openvino_int8", ir, "openvino-fp32", "openvino-int8", folder / "measured", groups=groups, measure_s=600
    )
    both, none = measured.changes
    assert measured.made == () and both is not None and both > 0
    assert none == 0


def test_a_broken_file_is_refused_in_words(folder: Path) -> None:
    (folder / "broken.onnx").write_bytes(b"no model")
    reply = _convert("openvino_fp32", folder / "broken.onnx", "onnx-fp32", "openvino-fp32", folder / "none")
    assert "broken.onnx: OpenVINO" in reply.refused["openvino-fp32"]


def test_a_file_that_was_promised_and_isnt_there_is_named(folder: Path) -> None:
    reply = _convert("openvino_fp32", folder / "source.onnx", "onnx-fp32", "openvino-fp32", folder / "lost")
    (folder / "lost" / "model.bin").unlink()
    with pytest.raises(PathFailed, match=r"openvino-fp32: .*model\.bin"):
        read_form(reply.made[0], folder=folder / "lost")
