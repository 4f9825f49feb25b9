"""How is the network of the example written as an ONNX file?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal_converters.errors import ToolMissing

INPUT, OUTPUT = "image", "logits"
BATCH = "batch"
"""Name of the first dimension, which may be any number."""
OPSET, IR_VERSION = 17, 8
"""Old enough for every engine that reads ONNX."""


class Linear(NamedTuple):
    """`x @ weights + bias`, with x float32[n, features]."""

    weights: NDArray[np.float32]
    """[features, classes]."""
    bias: NDArray[np.float32]
    """[classes]."""


def write_network(filters: Sequence[NDArray[np.float32]], *, side: int, parts: int, last: Linear | None) -> bytes:
    """The network as an ONNX file. Its input is float32[batch, 1, side, side].

    Each layer of `filters`, [filters, channels, height, width], is a convolution that keeps the picture's size (zeros
    around it) with a ReLU. Then comes the average over `parts` x `parts` parts of the picture, which are the features:
    float32[batch, filters * parts * parts]. With `last` the output is that of the linear layer.

    Raises:
        ToolMissing: onnx isn't installed.
    """
    onnx = _import_onnx()
    graph = _Graph(onnx)
    for number, layer in enumerate(filters, 1):
        above, left = layer.shape[2] // 2, layer.shape[3] // 2
        kernel = {"kernel_shape": layer.shape[2:], "pads": (above, left, above, left)}
        graph.add("Conv", f"convolution-{number}", {"filters": layer}, **kernel)
        graph.add("Relu", f"relu-{number}")
    part = side // parts
    graph.add("AveragePool", "average", kernel_shape=(part, part), strides=(part, part))
    graph.add("Flatten", "features", axis=1)
    width = filters[-1].shape[0] * parts * parts
    if last is not None:
        graph.add("Gemm", "last", {"weights": last.weights, "bias": last.bias})
        width = len(last.bias)
    return graph.write(side=side, width=width)


class _Graph:
    """Nodes in a row, each of which takes what the one before gave, and is named as what it gives."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(
        self, operator: str, name: str, constants: dict[str, NDArray[np.float32]] | None = None, **attributes: Any
    ) -> None:
        """Add a node. `constants` are its further inputs, in their order."""
        before = self._nodes[-1].output[0] if self._nodes else INPUT
        named = {f"{name}-{what}": value for what, value in (constants or {}).items()}
        self._constants += [self._onnx.numpy_helper.from_array(value, key) for key, value in named.items()]
        node = self._onnx.helper.make_node(operator, [before, *named], [name], name=name, **attributes)
        self._nodes.append(node)

    def write(self, *, side: int, width: int) -> bytes:
        """The file; the last node gives float32[batch, width]."""
        helper, number = self._onnx.helper, self._onnx.TensorProto.FLOAT
        self._nodes[-1].output[0] = OUTPUT
        taken = helper.make_tensor_value_info(INPUT, number, [BATCH, 1, side, side])
        given = helper.make_tensor_value_info(OUTPUT, number, [BATCH, width])
        graph = helper.make_graph(self._nodes, "digits", [taken], [given], self._constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(
            graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="shoal_converters.digits"
        )
        self._onnx.checker.check_model(model)
        written: bytes = model.SerializeToString(deterministic=True)
        return written


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ToolMissing("the digits example: onnx isn't installed: pip install 'shoal-converters[onnx]'") from None
    return onnx
