"""A network in an ONNX file, into formats that are reached through PyTorch, and into TensorRT's parser."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from tests.converters_heavy.conversions import convert, need, run

Array = NDArray[Any]

ROWS = 6
FLOAT32 = 1e-5
FLOAT16 = 0.02
"""Some roundings to 11 bits of numbers of up to about 4."""
# Named otherwise than the file's, and in another order.
INPUTS = (Tensor("scale", "float32", (-1, 4)), Tensor("picture", "float32", (-1, 3, 16, 16)))
OUTPUTS = (Tensor("vector", "float32", (-1, 4)), Tensor("mask", "float32", (-1, 2, 16, 16)))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture becomes a mask as large, and with another input a vector; shapes are computed as exporters write it."""
    need("onnx")
    import onnx

    random = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "w1": random.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5,
        "b1": random.standard_normal(8).astype(np.float32),
        "w2": random.standard_normal((2, 8, 1, 1)).astype(np.float32) / 3,
        "w3": random.standard_normal((8, 4)).astype(np.float32) / 3,
        "zero": np.array(0),
        "rest": np.array([-1]),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["p", "w1", "b1"], ["conv"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("HardSwish", ["conv"], ["active"]),
        node("Conv", ["active", "w2"], ["small"]),
        node("Resize", ["small", "", "scales"], ["large"], mode="linear"),
        node("Sigmoid", ["large"], ["m"]),
        node("GlobalAveragePool", ["active"], ["pooled"]),
        node("Shape", ["p"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"]),
        node("Unsqueeze", ["batch", "axes"], ["batches"]),
        node("Concat", ["batches", "rest"], ["flat"], axis=0),
        node("Reshape", ["pooled", "flat"], ["row"], allowzero=1),
        node("MatMul", ["row", "w3"], ["product"]),
        node("Mul", ["product", "s"], ["v"]),
    ]
    constants["axes"] = np.array([0])
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "network",
        [value("p", 1, ("n", 3, 16, 16)), value("s", 1, ("n", 4))],
        [value("m", 1, ("n", 2, 16, 16)), value("v", 1, ("n", 4))],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    path = tmp_path_factory.mktemp("onnx") / "network.onnx"
    onnx.save(model, path)
    return path


def compute(network: Path) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """Calls of one row each, and what ONNX Runtime gives, by the signature's names."""
    import onnxruntime

    random = np.random.default_rng(1)
    pictures = random.standard_normal((ROWS, 1, 3, 16, 16)).astype(np.float32)
    scales = random.standard_normal((ROWS, 1, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(f"{network}", providers=["CPUExecutionProvider"])
    calls, outputs = [], []
    for picture, scale in zip(pictures, scales, strict=True):
        mask, vector = session.run(["m", "v"], {"p": picture, "s": scale})
        calls.append({"picture": picture, "scale": scale})
        outputs.append({"mask": mask, "vector": vector})
    return calls, outputs


@pytest.mark.parametrize(
    ("module", "options", "limit"),
    [
        ("onnx_tflite", {}, FLOAT32),
        ("onnx_tflite", {"channels_last": True}, FLOAT32),
        ("onnx_coreml", {}, FLOAT16),
    ],
)
def test_network_computes_the_same(
    network: Path, tmp_path: Path, module: str, options: dict[str, Any], limit: float
) -> None:
    calls, expected = compute(network)

    made = convert(module, network, "onnx", folder=tmp_path, inputs=INPUTS, outputs=OUTPUTS, options=options)

    for found, right in zip(run(made, calls), expected, strict=True):
        assert set(found) == set(right)
        assert max(np.abs(found[name] - right[name]).max() for name in right) < limit
    shapes = {one.tensor: one.shape for one in made.made.bindings}
    assert shapes["picture"] == ((1, 16, 16, 3) if options else (1, 3, 16, 16))
    assert shapes["mask"] == ((1, 16, 16, 2) if options else (1, 2, 16, 16))


def test_tensorrt_parses_and_builds_the_network(network: Path, tmp_path: Path) -> None:
    checked = convert("tensorrt_check", network, "onnx", folder=tmp_path, variants=["onnx-fp32"])

    (note,) = checked.reply.notes
    assert "parses it and builds an engine of" in note


def test_tensorrt_says_why_it_does_not_take_a_file(tmp_path: Path) -> None:
    need("onnx")
    import onnx

    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Wobble", ["x"], ["y"], domain="somewhere")],
        "graph",
        [value("x", 1, (1,))],
        [value("y", 1, (1,))],
    )
    domains = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("somewhere", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=domains, ir_version=9), tmp_path / "model.onnx")

    checked = convert("tensorrt_check", tmp_path / "model.onnx", "onnx", folder=tmp_path, variants=["onnx-fp32"])

    assert "TensorRT-RTX" in checked.reply.refused["onnx-fp32"]
    assert "Wobble" in checked.reply.refused["onnx-fp32"]
