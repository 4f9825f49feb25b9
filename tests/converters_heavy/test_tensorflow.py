"""A Keras network with two inputs and two outputs, as a Keras file and as a SavedModel, into each format."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shoal_wire.manifest import Tensor

from tests.converters_heavy.conversions import answer, convert, need, run

FLOAT32 = 1e-5
FLOAT16 = 0.01
"""A few roundings to 11 bits of numbers of about 1."""
INPUTS = (Tensor("extra", "float32", (-1, 3)), Tensor("image", "float32", (-1, 8, 8, 1)))
OUTPUTS = (Tensor("value", "float32", ()), Tensor("scores", "float32", ()))  # not in the order of the file


@dataclass(frozen=True, kw_only=True)
class Network:
    """Both forms, and what Keras computes."""

    sources: dict[str, Path]
    feeds: dict[str, Any]
    outputs: dict[str, Any]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    need("tensorflow")
    import tensorflow

    keras = tensorflow.keras
    keras.utils.set_random_seed(0)
    image, extra = keras.Input((8, 8, 1), name="image"), keras.Input((3,), name="extra")
    x = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    x = keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(x)
    x = keras.layers.ReLU(6)(keras.layers.BatchNormalization()(x))
    x = keras.layers.Concatenate()([keras.layers.GlobalAveragePooling2D()(x), extra])
    scores = keras.layers.Dense(10, activation="softmax", name="scores")(x)
    value = keras.layers.Dense(1, activation="tanh", name="value")(x)
    model = keras.Model([image, extra], {"scores": scores, "value": value})
    folder = tmp_path_factory.mktemp("keras")
    model.save(folder / "model.keras")
    model.export(folder / "saved", verbose=False)
    random = np.random.default_rng(0)
    feeds = {
        "image": random.standard_normal((20, 8, 8, 1)).astype(np.float32),
        "extra": random.standard_normal((20, 3)).astype(np.float32),
    }
    outputs = {name: tensor.numpy() for name, tensor in model(feeds).items()}
    sources = {"keras": folder / "model.keras", "savedmodel": folder / "saved"}
    return Network(sources=sources, feeds=feeds, outputs=outputs)


def check(found: dict[str, Any], network: Network, *, rows: slice, limit: float) -> None:
    assert set(found) == set(network.outputs)
    for name, expected in network.outputs.items():
        assert np.abs(found[name] - expected[rows]).max() < limit, name


@pytest.mark.parametrize("model_format", ["keras", "savedmodel"])
@pytest.mark.parametrize("module", ["tensorflow_onnx", "tensorflow_tflite"])
def test_network_computes_the_same_in_float32(network: Network, tmp_path: Path, module: str, model_format: str) -> None:
    made = convert(module, network.sources[model_format], model_format, folder=tmp_path, outputs=OUTPUTS)

    assert [one.name for one in made.reply.outputs] == ["value", "scores"]
    assert {one.name: one.shape for one in made.reply.inputs} == {"image": (-1, 8, 8, 1), "extra": (-1, 3)}
    (found,) = run(made, [network.feeds])
    check(found, network, rows=slice(None), limit=FLOAT32)


def test_variables_of_an_optimizer_that_keras_2_saved_are_left_out(network: Network, tmp_path: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    folder = tmp_path / "saved"
    shutil.copytree(network.sources["savedmodel"], folder)
    program = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    nodes = program.meta_graphs[0].object_graph_def.nodes
    nodes[0].slot_variables.add(original_variable_node_id=1, slot_name="m", slot_variable_node_id=2)
    (folder / "saved_model.pb").write_bytes(program.SerializeToString())

    made = convert("tensorflow_tflite", folder, "savedmodel", folder=tmp_path, outputs=OUTPUTS)

    (found,) = run(made, [network.feeds])
    check(found, network, rows=slice(None), limit=FLOAT32)


@pytest.mark.parametrize("model_format", ["keras", "savedmodel"])
def test_core_ml_program_computes_the_same_as_far_as_float16_can(
    network: Network, tmp_path: Path, model_format: str
) -> None:
    made = convert("tensorflow_coreml", network.sources[model_format], model_format, folder=tmp_path, outputs=OUTPUTS)

    calls = [{name: array[row : row + 1] for name, array in network.feeds.items()} for row in range(20)]
    for row, found in enumerate(run(made, calls)):
        check(found, network, rows=slice(row, row + 1), limit=FLOAT16)


def test_refuses_other_names_than_the_models_own(network: Network, tmp_path: Path) -> None:
    named = (Tensor("a", "float32", (-1, 3)), Tensor("b", "float32", (-1, 8, 8, 1)))

    made = convert("tensorflow_tflite", network.sources["savedmodel"], "savedmodel", folder=tmp_path, inputs=named)

    assert "the model's names are extra, image: use those" in made.reply.refused["tflite-fp32"]


def test_refuses_a_folder_that_is_no_saved_model(network: Network, tmp_path: Path) -> None:
    made = convert("tensorflow_onnx", tmp_path, "savedmodel", folder=tmp_path)

    assert "not a SavedModel" in made.reply.refused["onnx-fp32"]


@pytest.mark.parametrize("model_format", ["keras", "savedmodel"])
def test_source_answers_in_tensorflow_by_the_signatures_names(
    network: Network, tmp_path: Path, model_format: str
) -> None:
    (found,) = answer(
        "tensorflow_run",
        network.sources[model_format],
        model_format,
        [network.feeds],
        folder=tmp_path,
        inputs=INPUTS,
        outputs=OUTPUTS,
    )

    check(found, network, rows=slice(None), limit=FLOAT32)
