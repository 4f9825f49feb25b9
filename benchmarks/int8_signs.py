"""Does it matter for ONNX Runtime on this processor whether the activations of an INT8 model have a sign?

A small convolutional network is made and quantized in both ways by ONNX Runtime's own tool, weights by channel with a
sign in either. The three files take turns in one process, one item at a time.

Run by hand: `python -m benchmarks.int8_signs [--rounds 40] [--json]`
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SIDE, CHANNELS, LAYERS = 56, 96, 6
"""Of the pictures that it computes on: 0.26 thousand million multiplications a layer."""
SIGNS: Mapping[str, QuantType] = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
CALIBRATION = 8
SEED = 5


class Noise(CalibrationDataReader):  # type: ignore[misc]
    """What the ranges of the activations are read from."""

    def __init__(self) -> None:
        self._left = iter(_pictures(CALIBRATION))

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """The next picture, None after the last one."""
        picture = next(self._left, None)
        return None if picture is None else {"x": picture}


def main() -> None:
    """Print how much faster than the float32 model each is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="of one run of each (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, median_ms in result["median_ms"].items():
        print(f"{name:8} {median_ms:8.2f} ms   {result['times_as_fast'][name]:.2f} times as fast as float32")


def compare(folder: Path, *, rounds: int) -> dict[str, Any]:
    """Medians in ms by type of the activations, and the median over the rounds of the ratio to float32."""
    onnx.save(make_network(), folder / "float32.onnx")
    for name, kind in SIGNS.items():
        quantize_static(
            folder / "float32.onnx",
            folder / f"{name}.onnx",
            Noise(),
            quant_format=QuantFormat.QDQ,
            activation_type=kind,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
    sessions = {name: _load(folder / f"{name}.onnx") for name in ("float32", *SIGNS)}
    (picture,) = _pictures(1)
    took_ms: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(rounds + 1):
        for name, session in sessions.items():
            began = time.perf_counter()
            session.run(None, {"x": picture})
            took_ms[name].append((time.perf_counter() - began) * 1000)
    timed = {name: times[1:] for name, times in took_ms.items()}  # the first run of each prepares
    return {
        "median_ms": {name: statistics.median(times) for name, times in timed.items()},
        "times_as_fast": {
            name: statistics.median(whole / own for whole, own in zip(timed["float32"], times, strict=True))
            for name, times in timed.items()
        },
    }


def make_network() -> onnx.ModelProto:
    """Convolutions of 3 by 3, each with a ReLU, of random weights that keep the size of what goes through."""
    generator = np.random.default_rng(SEED)
    nodes, weights, name = [], [], "x"
    for layer in range(LAYERS):
        values = generator.normal(scale=(2 / (9 * CHANNELS)) ** 0.5, size=(CHANNELS, CHANNELS, 3, 3))
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{layer}"))
        nodes.append(helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], pads=[1] * 4))
        name = "y" if layer == LAYERS - 1 else f"r{layer}"
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [name]))
    shape = [1, CHANNELS, SIDE, SIDE]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end in ("x", "y")]
    graph = helper.make_graph(nodes, "convolutions", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _pictures(count: int) -> Iterator[NDArray[np.float32]]:
    generator = np.random.default_rng(SEED + 1)
    for _ in range(count):
        yield generator.normal(size=(1, CHANNELS, SIDE, SIDE)).astype(np.float32)


def _load(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
