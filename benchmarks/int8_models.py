"""How do benchmarks come by INT8 variants of the float models that wheels carry?

They are made here, as a user would with ONNX Runtime's own tool, and kept in the cache of models:

- static: a QDQ graph of unsigned activations and signed weights by channel, calibrated on the noise that the benchmark
  feeds. Operators that are no sums of products stay in float.
- dynamic: weights now, activations at each run. One line of code, and slow where an engine has no kernels for it.

The tool needs the package `onnx`. Where that isn't installed, pip puts it into a folder of the cache, without its
dependencies, which the engines have brought; nothing else sees it. The tool runs in a process of its own.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Method = Literal["static", "dynamic"]
Feeds = Mapping[str, npt.NDArray[np.generic]]

ONNX = "onnx==1.23.2"
OPSET = 17
"""Scales by channel need 13 at least."""
SUMS_OF_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Mul", "Concat", "Resize", "Relu")
TAIL = 6
"""Operators at the end that stay in float: rounding there goes straight into the answer."""
TIMEOUT_S = 600


def make_int8(source: Path, *, method: Method, calibration: Sequence[Feeds], cache: Path) -> Path:
    """The path of the INT8 variant of an ONNX file; made only if the cache doesn't have it.

    Raises:
        subprocess.CalledProcessError: pip or the tool failed; they said why on stderr.
    """
    key = hashlib.sha256(source.read_bytes())
    for text in (method, ONNX, str(OPSET), metadata.version("onnxruntime"), Path(__file__).read_text()):
        key.update(text.encode())
    for feeds in calibration:
        for name, array in sorted(feeds.items()):
            key.update(name.encode() + array.tobytes())
    made = cache / f"{source.stem}-int8-{method}-{key.hexdigest()[:16]}.onnx"
    if made.is_file():
        return made
    with tempfile.TemporaryDirectory(dir=cache, prefix=".int8-") as folder:
        samples = []
        for number, feeds in enumerate(calibration):
            samples.append(Path(folder) / f"{number}.npz")
            arrays: dict[str, Any] = dict(feeds)
            np.savez(samples[-1], **arrays)
        fresh = Path(folder) / made.name
        command = [sys.executable, __file__, method, str(source), str(fresh), *map(str, samples)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_find_onnx(cache))}
        subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=True, stdout=subprocess.DEVNULL)
        fresh.replace(made)
    return made


def _find_onnx(cache: Path) -> list[str]:
    """What has to be on the path of modules."""
    if find_spec("onnx") is not None:
        return []
    folder = cache / ONNX.replace("==", "-")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=cache, prefix=".onnx-") as temporary:
            target = Path(temporary) / "packages"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), ONNX]
            subprocess.run(command, timeout=TIMEOUT_S, check=True)
            target.rename(folder)
    return [str(folder)]


def _quantise(method: str, source: Path, target: Path, samples: Sequence[Path]) -> None:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = target.with_suffix(".ready.onnx")
    if method == "dynamic":
        quantization.quantize_dynamic(str(source), str(target), weight_type=quantization.QuantType.QUInt8)
        return
    onnx.save(onnx.version_converter.convert_version(onnx.load(str(source)), OPSET), str(ready))
    quant_pre_process(str(ready), str(ready), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(ready),
        str(target),
        _Samples(samples),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        op_types_to_quantize=list(SUMS_OF_PRODUCTS),
        nodes_to_exclude=[node.name for node in onnx.load(str(ready)).graph.node[-TAIL:]],
        per_channel=True,
    )


class _Samples:
    """What the tool takes as a `CalibrationDataReader`."""

    def __init__(self, samples: Sequence[Path]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        path = next(self._samples, None)
        return None if path is None else dict(np.load(path))


if __name__ == "__main__":
    _quantise(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), [Path(path) for path in sys.argv[4:]])
