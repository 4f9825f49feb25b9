"""Does a search with the real tools find the layer that 8 bits break, and a form without it that keeps the budget?"""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from shoal_converters.forms import Form, Signature
from shoal_converters.paths import PATHS
from shoal_converters.quantization.search import Found, Score, search
from shoal_converters.quantization.tools import PathTool
from shoal_wire.manifest import Tensor

from tests.unit.converters.paths.tiny_models import items, onnx_model, write_calls

TIMEOUT_S = 300.0
SIGNATURE = Signature(inputs=(Tensor("x", "float32", (-1, 8)),), outputs=(Tensor("y", "float32", (-1, 4)),))


def _classes(content: bytes) -> NDArray[np.int64]:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    scores = np.concatenate([session.run(None, {"x": call})[0] for call in items(200, seed=7)])
    classes: NDArray[np.int64] = scores.argmax(axis=1)
    return classes


def _search(folder: Path, *, scale: float, budget_s: float = 1000.0) -> Found:
    content = onnx_model(scale=scale).SerializeToString()
    (folder / "source.onnx").write_bytes(content)
    (path,) = (path for path in PATHS if path.module == "onnx_int8")
    right = _classes(content)

    def evaluate(form: Form) -> Score:
        value = float((_classes(form.files["onnx-int8.onnx"]) == right).mean())
        return Score(value=value, drop=1 - value)

    tool = PathTool(
        variant="onnx-int8",
        path=path,
        source=folder / "source.onnx",
        source_format="onnx-fp32",
        signature=SIGNATURE,
        calibration=write_calls(folder / "calls.npz", list(items(64))),
        folder=folder / "attempts",
        interpreters={},
        timeout_s=TIMEOUT_S,
    )
    found = search("onnx-int8", tool=tool, evaluate=evaluate, max_drop=0.05, original_value=1.0, budget_s=budget_s)
    assert list((folder / "attempts").iterdir()) == []
    return found


def test_a_model_that_8_bits_suit_needs_one_attempt(tmp_path: Path) -> None:
    found = _search(tmp_path, scale=1.0)
    assert found.form is not None
    assert [one.method for one in found.attempts] == ["min-max, per tensor"]


def test_the_layer_that_8_bits_break_is_named_and_left_in_float(tmp_path: Path) -> None:
    found = _search(tmp_path, scale=1e4)
    assert found.form is not None
    assert found.attempts[0].drop > 0.2 and found.attempts[-1].drop <= 0.05
    assert [(layer.name, layer.is_kept_float) for layer in found.layers] == [("wide", True), ("head", False)]
    assert "1 of 2 layers are left in float" in found.reason and "wide (Gemm" in found.reason
