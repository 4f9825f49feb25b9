"""Each operator's counterpart in PyTorch against ONNX Runtime, which computes it from ONNX's own definition."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shoal_converters.errors import PathFailed
from shoal_wire.manifest import Tensor

Array = NDArray[Any]
Case = tuple[str, int, list[tuple[int, ...]], list[Array | None], dict[str, Any]]

CLOSE = 2e-5


def make_inputs(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def positive(*shape: int) -> Array:
    return np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


P = (2, 3, 6, 5)
C = np.random.default_rng(2).standard_normal


def recurrent(*, gates: int, directions: int = 1, states: int = 0) -> list[Array | None]:
    """Weights, bias, no lengths, and first states of a layer of 4 for a batch of 2 with 3 inputs."""
    shapes = [(gates * 4, 3), (gates * 4, 4), (gates * 8,)], [(2, 4)] * states
    weights, first = ([C((directions, *shape)).astype(np.float32) for shape in some] for some in shapes)
    return [*weights, None, *first] if states else [*weights]


# Operator, opset, shapes of inputs, constants that follow them, attributes.
CASES: list[Any] = [
    *[(name, 18, [P], [], {}) for name in ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Floor", "Round")],
    *[(name, 18, [P], [], {}) for name in ("HardSwish", "Softplus", "Softsign", "Mish", "Sign", "Sin", "Ceil")],
    *[(name, 18, [P], [], {}) for name in ("Elu", "Celu", "LeakyRelu", "HardSigmoid", "GlobalAveragePool")],
    *[(name, 18, [P, (3, 1, 5)], [], {}) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum")],
    ("Pow", 18, [], [positive(2, 3), np.float32(1.7)], {}),
    ("Gelu", 20, [P], [], {"approximate": "tanh"}),
    ("Clip", 11, [P], [np.float32(-0.5), None], {}),
    ("Clip", 6, [P], [], {"min": 0.0, "max": 6.0}),
    ("PRelu", 18, [P], [positive(3, 1, 1)], {}),
    ("Softmax", 18, [P], [], {"axis": 1}),
    ("Softmax", 11, [P], [], {"axis": 1}),
    ("LogSoftmax", 18, [P], [], {}),
    ("Cast", 18, [P], [], {"to": 6}),
    ("Mod", 18, [P], [positive(1)], {"fmod": 1}),
    ("Reshape", 18, [P], [whole(0, -1, 3)], {}),
    ("Flatten", 18, [P], [], {"axis": 2}),
    ("Transpose", 18, [P], [], {"perm": [0, 2, 3, 1]}),
    ("Squeeze", 18, [(2, 1, 3, 1)], [whole(1, -1)], {}),
    ("Unsqueeze", 18, [(2, 3)], [whole(-1, 0)], {}),
    ("Concat", 18, [P, P], [], {"axis": -2}),
    ("Slice", 18, [P], [whole(1, -1), whole(5, -100), whole(2, 3), whole(2, -1)], {}),
    ("Gather", 18, [P], [np.array([[0, -1], [2, 1]])], {"axis": 1}),
    ("Gather", 18, [P], [np.array(-2)], {"axis": 2}),
    ("GatherElements", 18, [(2, 3)], [np.array([[0, -1, 1]])], {"axis": 0}),
    ("GatherND", 18, [P], [np.array([[0, 2], [1, 0]])], {}),
    ("Expand", 18, [(3, 1)], [whole(2, 1, 4)], {}),
    ("Tile", 18, [(2, 3)], [whole(2, 2)], {}),
    *[("Pad", 18, [P], [whole(0, 0, 1, 2, 0, 0, 3, 0)], {"mode": mode}) for mode in ("constant", "reflect", "edge")],
    ("DepthToSpace", 18, [(1, 8, 2, 3)], [], {"blocksize": 2}),
    ("DepthToSpace", 18, [(1, 8, 2, 3)], [], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 18, [(1, 2, 4, 6)], [], {"blocksize": 2}),
    ("ReduceMean", 18, [P], [whole(2, 3)], {}),
    ("ReduceMean", 13, [P], [], {"axes": [1], "keepdims": 0}),
    *[(name, 18, [P], [whole(-1)], {}) for name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")],
    *[(name, 18, [P], [], {}) for name in ("ReduceSumSquare", "ReduceLogSumExp")],
    ("ArgMax", 18, [P], [], {"axis": 1, "keepdims": 0}),
    ("CumSum", 18, [P], [np.array(2)], {}),
    ("MatMul", 18, [(2, 3, 4), (4, 5)], [], {}),
    ("Gemm", 18, [(2, 3)], [C((4, 3)).astype(np.float32), C(4).astype(np.float32)], {"transB": 1}),
    ("Gemm", 18, [(3, 2)], [C((3, 4)).astype(np.float32), C((2, 4)).astype(np.float32)], {"transA": 1, "alpha": 0.5}),
    ("Einsum", 18, [(2, 3, 4), (2, 5, 4)], [], {"equation": "bij,bkj->bik"}),
    ("Conv", 18, [P, (4, 3, 3, 2)], [], {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    (
        "Conv",
        18,
        [P, (6, 1, 3, 3)],
        [C(6).astype(np.float32)],
        {"group": 3, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    ("Conv", 18, [P, (3, 3, 2, 2)], [], {"auto_pad": "SAME_LOWER"}),
    ("Conv", 18, [(2, 3, 9), (4, 3, 3)], [], {"pads": [1, 1]}),
    ("ConvTranspose", 18, [P, (3, 4, 3, 3)], [], {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
    ("ConvTranspose", 18, [P, (3, 2, 3, 3)], [], {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ("MaxPool", 18, [P], [], {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "strides": [2, 2]}),
    ("MaxPool", 18, [P], [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", 18, [P], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 18, [P], [], {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("AveragePool", 18, [P], [], {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1}),
    ("GlobalMaxPool", 18, [P], [], {}),
    ("BatchNormalization", 15, [P], [positive(3), positive(3), positive(3), positive(3)], {}),
    ("InstanceNormalization", 18, [P], [positive(3), positive(3)], {}),
    ("LayerNormalization", 18, [P], [positive(6, 5), positive(6, 5)], {"axis": 2}),
    ("LRN", 18, [P], [], {"size": 3}),
    ("LSTM", 18, [(5, 2, 3)], recurrent(gates=4), {"hidden_size": 4}),
    ("LSTM", 18, [(5, 2, 3)], recurrent(gates=4, directions=2), {"hidden_size": 4, "direction": "bidirectional"}),
    ("LSTM", 18, [(5, 2, 3)], recurrent(gates=4, states=2), {"hidden_size": 4, "direction": "reverse"}),
    ("GRU", 18, [(5, 2, 3)], recurrent(gates=3), {"hidden_size": 4}),
    ("GRU", 18, [(5, 2, 3)], recurrent(gates=3, states=1), {"hidden_size": 4, "linear_before_reset": 1}),
    *[
        (
            "Resize",
            18,
            [(1, 2, 5, 4)],
            [None, None, whole(1, 2, 9, 7)],
            {"mode": mode, "coordinate_transformation_mode": how},
        )
        for mode in ("nearest", "linear")
        for how in ("half_pixel", "asymmetric", "align_corners")
    ],
    ("Resize", 18, [(1, 2, 3, 3)], [None, np.array([1, 1, 2, 2], np.float32)], {"nearest_mode": "floor"}),
    ("Upsample", 9, [(1, 2, 3, 3)], [np.array([1, 1, 2, 2], np.float32)], {}),
]


def save(path: Path, case: Case) -> list[Tensor]:
    import onnx

    operator, opset, shapes, constants, attributes = case
    names = [f"x{place}" for place in range(len(shapes))]
    filled = {f"c{place}": value for place, value in enumerate(constants) if value is not None}
    given = [*names, *(f"c{place}" if value is not None else "" for place, value in enumerate(constants))]
    make = onnx.helper
    graph = make.make_graph(
        [make.make_node(operator, given, ["y"], name="node", **attributes)],
        "graph",
        [make.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)],
        [make.make_tensor_value_info("y", 6 if operator == "Cast" else 7 if operator == "ArgMax" else 1, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in filled.items()],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path)
    return [Tensor(name, "float32", shape) for name, shape in zip(names, shapes, strict=True)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{'-'.join(map(str, case[4].values()))}")
def test_operator_computes_what_onnx_defines(case: Case, tmp_path: Path) -> None:
    torch, onnxruntime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    from shoal_converters.paths.onnx_in_torch.module import load_onnx

    inputs = save(tmp_path / "model.onnx", case)
    arrays = make_inputs([one.shape for one in inputs])
    feeds = {one.name: array for one, array in zip(inputs, arrays, strict=True)}
    session = onnxruntime.InferenceSession(f"{tmp_path / 'model.onnx'}", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)

    (found,) = load_onnx(tmp_path / "model.onnx", inputs)(*map(torch.from_numpy, arrays))

    assert (tuple(found.shape), found.numpy().dtype) == (expected.shape, expected.dtype)
    assert np.abs(found.numpy() - expected).max() < CLOSE


def test_names_operators_without_a_counterpart(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from shoal_converters.paths.onnx_in_torch.module import load_onnx

    inputs = save(tmp_path / "model.onnx", ("Det", 18, [(3, 3)], [], {}))

    with pytest.raises(PathFailed, match="no counterpart here: Det"):
        load_onnx(tmp_path / "model.onnx", inputs)


def test_names_what_a_recurrent_layer_asks_for_that_is_not_supported(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from shoal_converters.paths.onnx_in_torch.module import load_onnx

    case: Case = ("GRU", 18, [(5, 2, 3)], recurrent(gates=3), {"hidden_size": 4, "activations": ["Relu", "Tanh"]})
    module = load_onnx(tmp_path / "model.onnx", save(tmp_path / "model.onnx", case))

    with pytest.raises(PathFailed, match=r"ONNX node node \(GRU\): activations"):
        module(torch.zeros(5, 2, 3))


def test_names_the_node_whose_shape_is_not_known_before_it_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import onnx
    from shoal_converters.paths.onnx_in_torch.module import load_onnx

    make = onnx.helper
    graph = make.make_graph(
        [make.make_node("Reshape", ["x", "shape"], ["y"], name="turn")],
        "graph",
        [make.make_tensor_value_info("x", 1, (6,)), make.make_tensor_value_info("shape", 7, (2,))],
        [make.make_tensor_value_info("y", 1, None)],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), tmp_path / "model.onnx")
    module = load_onnx(tmp_path / "model.onnx", [Tensor("x", "float32", (6,)), Tensor("shape", "int64", (2,))])

    with pytest.raises(PathFailed, match=r"ONNX node turn \(Reshape\): input 1 is computed while the model runs"):
        module(torch.zeros(6), torch.tensor([2, 3]))
