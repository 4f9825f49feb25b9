"""Which quantizations are tried for each variant, the cheapest first?

Cheap for the board first: one scale for a tensor before one for each channel; then cheap to make: the smallest and
largest values seen, before distributions.
"""

from collections.abc import Mapping
from typing import NamedTuple

from shoal_converters.paths.quantizing import Options


class Method(NamedTuple):
    """A way to quantize. `words` name it in the report."""

    words: str
    options: Options


PER_TENSOR = Method("min-max, per tensor", Options(per_channel=False))
PER_CHANNEL = Method("min-max, per channel", Options())
PERCENTILE = Method("percentile, per channel", Options(method="percentile"))

FULL_RANGE = Method("min-max, per channel, weights of full range", Options(full_range=True))
"""Better where it is right; so it comes late, for a release shouldn't depend on the CPU that it was made on."""

COMPUTE_ONLY = Method(
    "percentile, per channel, convolutions and products only", Options(method="percentile", is_compute_only=True)
)
ENTROPY = Method("entropy, per channel", Options(method="entropy"))
"""Takes ten times as long as all others together."""

_ONNX = (PER_TENSOR, PER_CHANNEL, PERCENTILE, COMPUTE_ONLY, FULL_RANGE, ENTROPY)

METHODS: Mapping[str, tuple[Method, ...]] = {
    "onnx-int8": _ONNX,
    "onnx-int8-tensorrt": _ONNX,
    "tflite-int8": (
        PER_TENSOR,
        PER_CHANNEL,
        Method("moving mean of min-max, per channel", Options(method="mean")),
        Method("min-max, per channel, convolutions and products only", Options(is_compute_only=True)),
    ),
    "tflite-int8-dynamic": (PER_CHANNEL,),
    "openvino-int8": (
        PER_TENSOR,
        PER_CHANNEL,
        PERCENTILE,
        Method("histogram, per channel", Options(method="histogram")),
        Method("SmoothQuant, mean of min-max, per channel", Options(method="mean", smooth=True)),
        Method("bias correction by layer, mean of min-max, per channel", Options(method="mean", correct_bias=True)),
        FULL_RANGE,
    ),
}
"""By variant; those without an entry have nothing to be searched for."""
