"""Which conversions are there, from what to what, and what must be installed for each? The table.

A path is a module of this folder with a function `convert`, run as a program of its own (`program.py` says how).
To add one: write its module, then name it here and its extra in pyproject.toml.
"""

from collections.abc import Mapping
from typing import NamedTuple

SOURCES: Mapping[str, str] = {
    "onnx": "ONNX file (.onnx)",
    "tflite": "TensorFlow Lite file (.tflite)",
    "openvino": "OpenVINO IR (.xml beside its .bin)",
    "torch-export": "PyTorch exported program (.pt2)",
    "torchscript": "TorchScript file (.pt, .ts)",
    "torch-code": "module:function that gives a torch.nn.Module",
    "savedmodel": "TensorFlow SavedModel folder",
    "keras": "Keras file (.keras, .h5)",
    "paddle": "PaddlePaddle program (.pdmodel beside its .pdiparams)",
    "sklearn": "scikit-learn estimator (.joblib, .pkl: unpickled, so only your own)",
    "sklearn-code": "module:function that gives a fitted scikit-learn estimator",
}
"""Formats that a recipe's source may have."""


class Precision(NamedTuple):
    """Format and precision of a variant as a manifest has them."""

    format: str
    precision: str


VARIANTS: Mapping[str, Precision] = {
    "onnx-fp32": Precision("onnx", "fp32"),
    "onnx-fp16": Precision("onnx", "fp16"),
    "onnx-int8": Precision("onnx", "int8"),
    "onnx-int8-tensorrt": Precision("onnx", "int8"),
    "tflite-fp32": Precision("tflite", "fp32"),
    "tflite-fp16": Precision("tflite", "fp16"),
    "tflite-int8": Precision("tflite", "int8"),
    "tflite-int8-dynamic": Precision("tflite", "int8-weights"),
    "openvino-fp32": Precision("openvino", "fp32"),
    "openvino-fp16": Precision("openvino", "fp16"),
    "openvino-int8": Precision("openvino", "int8"),
    "coreml-fp16": Precision("coreml", "fp16"),
    "coreml-int8-weights": Precision("coreml", "int8-weights"),
    "coreml-int4-weights": Precision("coreml", "int4-weights"),
}
"""What may be asked for. `onnx-int8` has unsigned activations, as x86 CPUs want them; `onnx-int8-tensorrt` symmetric
ones and no quantized bias, as TensorRT's parser wants them."""

FULL_PRECISION = tuple(name for name, variant in VARIANTS.items() if variant.precision == "fp32")
"""Variants that are the model itself, with which the others of their format are compared."""


class Path(NamedTuple):
    """A conversion. It may take a source format or a variant that another path made."""

    module: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    needs: tuple[str, ...]
    """Modules that must be importable in the interpreter that runs it."""
    extra: str
    """Of shoal-converters, that installs them; also the key under which another interpreter can be named."""


TORCH = ("torch-export", "torchscript", "torch-code")
TENSORFLOW = ("savedmodel", "keras")

PATHS: tuple[Path, ...] = (
    Path("torch_onnx", TORCH, ("onnx-fp32",), ("torch", "onnx", "onnxscript"), "torch"),
    Path("sklearn_onnx", ("sklearn", "sklearn-code"), ("onnx-fp32",), ("sklearn", "skl2onnx", "onnx"), "sklearn"),
    Path("tensorflow_onnx", TENSORFLOW, ("onnx-fp32",), ("tensorflow", "tf2onnx", "onnx"), "tensorflow"),
    Path("paddle_openvino", ("paddle",), ("openvino-fp32",), ("openvino",), "openvino"),
    Path("onnx_fp32", ("onnx",), ("onnx-fp32",), ("onnx",), "onnx"),
    Path("onnx_fp16", ("onnx-fp32",), ("onnx-fp16",), ("onnx", "onnxruntime"), "onnx"),
    Path("onnx_int8", ("onnx-fp32",), ("onnx-int8", "onnx-int8-tensorrt"), ("onnx", "onnxruntime"), "onnx"),
    Path("tflite_fp32", ("tflite",), ("tflite-fp32",), ("ai_edge_litert",), "tflite"),
    Path("torch_tflite", TORCH, ("tflite-fp32",), ("torch", "litert_torch"), "litert-torch"),
    Path("tensorflow_tflite", TENSORFLOW, ("tflite-fp32",), ("tensorflow",), "tensorflow"),
    Path("onnx_tflite", ("onnx-fp32",), ("tflite-fp32",), ("onnx", "onnxruntime", "litert_torch"), "litert-torch"),
    Path(
        "tflite_quantized",
        ("tflite-fp32",),
        ("tflite-fp16", "tflite-int8", "tflite-int8-dynamic"),
        ("ai_edge_quantizer",),
        "tflite",
    ),
    Path("openvino_fp32", ("onnx-fp32", "openvino"), ("openvino-fp32",), ("openvino",), "openvino"),
    Path("tflite_openvino", ("tflite-fp32",), ("openvino-fp32",), ("openvino",), "openvino"),
    Path("openvino_fp16", ("openvino-fp32",), ("openvino-fp16",), ("openvino",), "openvino"),
    Path("openvino_int8", ("openvino-fp32",), ("openvino-int8",), ("openvino", "nncf"), "openvino"),
    Path("torch_coreml", TORCH, ("coreml-fp16",), ("torch", "coremltools"), "coreml"),
    Path("tensorflow_coreml", TENSORFLOW, ("coreml-fp16",), ("tensorflow", "coremltools"), "coreml"),
    Path("onnx_coreml", ("onnx-fp32",), ("coreml-fp16",), ("onnx", "onnxruntime", "torch", "coremltools"), "coreml"),
    Path(
        "coreml_weights", ("coreml-fp16",), ("coreml-int8-weights", "coreml-int4-weights"), ("coremltools",), "coreml"
    ),
)
"""In the order in which they are tried where several give a variant."""

COREML_RUN = Path(
    "coreml_run", ("coreml-fp16", "coreml-int8-weights", "coreml-int4-weights"), (), ("torch", "coremltools"), "coreml"
)
"""Makes no form, but runs one."""

TENSORRT_CHECK = Path("tensorrt_check", ("onnx-fp32", "onnx-int8-tensorrt"), (), ("tensorrt_rtx",), "tensorrt")
"""Makes no form, but says whether TensorRT's parser and builder take one."""

SOURCE_RUNS: tuple[Path, ...] = (
    Path("torch_run", TORCH, (), ("torch",), "torch"),
    Path("tensorflow_run", TENSORFLOW, (), ("tensorflow",), "tensorflow"),
    Path("sklearn_run", ("sklearn", "sklearn-code"), (), ("sklearn", "joblib"), "sklearn"),
    Path("paddle_run", ("paddle",), (), ("paddle",), "paddle"),
)
"""Make no form, but say what a source answers in its own framework, for those that no engine runs."""

EXTRAS = tuple(sorted({path.extra for path in (*PATHS, COREML_RUN, TENSORRT_CHECK, *SOURCE_RUNS)}))
"""Of shoal-converters, each of which may have an interpreter of its own."""
