"""What an order asks for is looked at before anything is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper
from shoal_converters.building.job import Job, Order, check_inputs, note_source, open_job
from shoal_converters.errors import BadData, BadModel, BadRecipe, ConverterError
from shoal_converters.forms import Signature
from shoal_converters.recipe import Data, Recipe, Source
from shoal_wire.manifest import Operation, Tensor

LABELS = ("cat", "dog")
RECIPE = Recipe(
    name="pets",
    version=1,
    created_at="2026-01-01",
    licence="MIT",
    provenance="",
    task="classification",
    labels=LABELS,
    source=Source(path="pets.onnx", format="onnx"),
    pre=(Operation("table.decode_csv", {"has_header": True}), Operation("table.feed", {"input": "x", "columns": 2})),
    post=(
        Operation("scores.read", {"output": "y", "activation": "softmax"}),
        Operation("classes.top", {"labels": list(LABELS)}),
    ),
    calibration=Data(path="calibration.npz"),
    evaluation=Data(path="evaluation.npz"),
)
X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pets.onnx").write_bytes(b"a model")
    np.savez(tmp_path / "evaluation.npz", x=X, y=Y)
    np.savez(tmp_path / "calibration.npz", x=X + 100)
    return tmp_path


def take(folder: Path, recipe: Recipe = RECIPE) -> Job:
    order = Order(recipe=recipe, recipe_folder=folder, out=folder / "out", command="", interpreters={}, profiles=())
    return open_job(order)


def test_a_job_has_the_data_and_the_model_of_its_recipe(folder: Path) -> None:
    job = take(folder)
    assert [item.expected for item in job.evaluation] == [{"label": label} for label in ("cat", "dog", "cat", "dog")]
    assert len(job.calibration) == 4
    assert Path(job.source.path) == folder / "pets.onnx"
    assert take(folder, replace(RECIPE, calibration=None)).calibration == []


def with_arrays(**arrays: Any) -> Callable[[Path], None]:
    return lambda folder: np.savez(folder / "evaluation.npz", **arrays)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (with_arrays(x=X), "no labels"),
        (with_arrays(x=X[:0], y=Y[:0]), "x is empty"),
        (with_arrays(x=X, y=Y + 1), "label 2, expected .* from 0 to 1"),
        (with_arrays(x=np.full_like(X, np.nan), y=Y), "not a number"),
        (with_arrays(x=X + 100, y=Y), "calibration and evaluation set have 4 items in common"),
        (with_arrays(x=X[:, :1], y=Y), "evaluation set: 0: .*column"),
        (lambda folder: (folder / "evaluation.npz").unlink(), "no such file"),
        (lambda folder: np.savez(folder / "calibration.npz", x=X[:, :1]), "calibration set: 0: .*column"),
    ],
)
def test_a_set_that_cannot_be_used_is_named(folder: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(folder)
    with pytest.raises(BadData, match=words):
        take(folder)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"source": Source(path="gone.onnx")}, BadModel, "no such file"),
        ({"task": "divination"}, BadRecipe, "task 'divination', expected one of"),
        ({"variants": ("onnx-int3",)}, BadRecipe, "unknown 'onnx-int3'"),
        ({"pre": ()}, BadRecipe, "pre is empty"),
        ({"pre": (Operation("table.decode_cvs"),)}, BadRecipe, "unknown operation 'table.decode_cvs'"),
        ({"post": (Operation("values.read", {"output": "y"}),)}, BadRecipe, "names"),
    ],
)
def test_a_recipe_that_asks_for_what_does_not_exist_is_refused(
    folder: Path, changes: dict[str, Any], error: type[ConverterError], words: str
) -> None:
    with pytest.raises(error, match=words):
        take(folder, replace(RECIPE, **changes))


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor("image", "float32", (-1, 2)), r"gives the inputs \['x'\], but the model takes \['image'\]"),
        (Tensor("x", "float32", (1, 3)), r"float32\[1, 2\] for the input 'x', but the model takes float32\[1, 3\]"),
        (Tensor("x", "float32", (1, 2, 1)), r"takes float32\[1, 2, 1\]"),
        (Tensor("x", "uint8", (1, 2)), r"takes uint8\[1, 2\]"),
    ],
)
def test_pre_processing_that_does_not_fit_the_model_is_told_with_both_sides(
    folder: Path, tensor: Tensor, words: str
) -> None:
    job = take(folder)
    check_inputs(job, Signature(inputs=(Tensor("x", "float32", (-1, 2)),), outputs=()))
    with pytest.raises(BadRecipe, match=words):
        check_inputs(job, Signature(inputs=(tensor,), outputs=()))


def test_a_model_that_is_quantized_already_is_told(folder: Path) -> None:
    (folder / "pets.onnx").write_bytes(onnx_of(np.ones((200, 2), np.int8)))
    (note,) = note_source(take(folder).source)
    assert note.startswith("The model is quantized already: int8")


def test_of_a_model_in_float_nothing_is_told(folder: Path) -> None:
    (folder / "pets.onnx").write_bytes(onnx_of(np.ones((200, 2), np.float32)))
    assert note_source(take(folder).source) == ()


def onnx_of(weights: np.ndarray) -> bytes:
    """A model that multiplies by weights, which may be integers that stand for numbers."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    constants = [numpy_helper.from_array(weights, "w")]
    if weights.dtype == np.int8:
        constants = [numpy_helper.from_array(weights, "q"), numpy_helper.from_array(np.array(0.1, np.float32), "scale")]
        nodes = [helper.make_node("DequantizeLinear", ["q", "scale"], ["w"]), *nodes]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 200])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    content: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return content
