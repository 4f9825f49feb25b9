"""What does a publisher have before a release is built? A network that reads digits, labelled sets, and a recipe."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

from tests.unit.converters.paths.tiny_models import tflite_model

DEADLINE_S = 240.0
PIXELS, HIDDEN, CLASSES = 64, 256, 10
TRAINED, CALIBRATED, JUDGED = 1200, 40, 80
LABELS = tuple(str(digit) for digit in range(CLASSES))
RECIPE = """\
name = "digits"
version = {version}
created_at = "2026-01-01"
licence = "BSD-3-Clause"
task = "classification"
labels = [{labels}]
variants = [{variants}]
golden_cases = 3

[source]
path = "{source}"

[[pre]]
name = "table.decode_csv"
parameters = {{ has_header = true }}

[[pre]]
name = "table.feed"
parameters = {{ input = "x", columns = 64 }}

[[post]]
name = "scores.read"
parameters = {{ output = "y", activation = "softmax" }}

[[post]]
name = "classes.top"
parameters = {{ labels = [{labels}], count = 3 }}

[calibration]
path = "calibration.npz"

[evaluation]
path = "evaluation.npz"

[budget]
max_drop = {max_drop}
timing_s = 0.1
tuning_s = {tuning_s}
"""

Array = NDArray[np.float32]


def train() -> tuple[Array, Array]:
    """Random features, and the least squares that tell digits by them: float32[64, 256], float32[256, 10]."""
    pixels, digits = _read()
    first = np.random.default_rng(0).standard_normal((PIXELS, HIDDEN)).astype(np.float32) / np.float32(4)
    features = np.tanh(pixels[:TRAINED] @ first)
    wanted = np.eye(CLASSES)[digits[:TRAINED]] * 10
    second = np.linalg.solve(features.T @ features + np.eye(HIDDEN), features.T @ wanted)
    return first, second.astype(np.float32)


def write_sets(folder: Path) -> None:
    """`calibration.npz` without labels, and `evaluation.npz`."""
    pixels, digits = _read()
    judged = slice(TRAINED, TRAINED + JUDGED)
    np.savez(folder / "evaluation.npz", x=pixels[judged], y=digits[judged])
    np.savez(folder / "calibration.npz", x=pixels[TRAINED + JUDGED :][:CALIBRATED])


def write_onnx(path: Path, layers: tuple[Array, Array], *, last: str = "Identity") -> None:
    """The network as an ONNX file; `last`: an operator that its answer goes through."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="hidden"),
        helper.make_node("Tanh", ["h"], ["t"], name="squash"),
        helper.make_node("MatMul", ["t", "w2"], ["s"], name="scores"),
        helper.make_node(last, ["s"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, PIXELS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(array, name) for array, name in zip(layers, ("w1", "w2"), strict=True)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_tflite(path: Path, layers: tuple[Array, Array]) -> None:
    """The same network."""
    path.write_bytes(tflite_model(layers=layers))


def write_recipe(
    folder: Path,
    *variants: str,
    source: str = "digits.onnx",
    labels: Sequence[str] = LABELS,
    max_drop: float = 0.03,
    tuning_s: float = 600.0,
    version: int = 1,
) -> Path:
    """`recipe.toml`; a drop of 0.03 is that of two digits."""
    path = folder / "recipe.toml"
    path.write_text(
        RECIPE.format(
            variants=_quote(variants),
            labels=_quote(labels),
            source=source,
            max_drop=max_drop,
            tuning_s=tuning_s,
            version=version,
        )
    )
    return path


def make_command(recipe: Path, out: Path, *options: str) -> list[str]:
    return [str(Path(sys.executable).with_name("shoal-convert")), "build", str(recipe), "--out", str(out), *options]


def build(recipe: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `shoal-convert build` with a folder for temporary files of its own, which must be empty afterwards."""
    scratch = out.with_name(f"{out.name}.scratch")
    scratch.mkdir()
    done = subprocess.run(
        make_command(recipe, out, *options),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert list(scratch.iterdir()) == []
    scratch.rmdir()
    return done


def _read() -> tuple[Array, NDArray[np.int64]]:
    """float32[n, 64] from 0 to 1, and which digits they are."""
    digits = load_digits()
    return (digits.data / 16).astype(np.float32), digits.target


def _quote(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)
