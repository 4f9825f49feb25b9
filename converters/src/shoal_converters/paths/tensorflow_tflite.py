"""How does a SavedModel or a Keras file become a TFLite file? By TensorFlow's own converter."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow
from shoal_wire.manifest import Tensor

from shoal_converters.errors import PathFailed
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.signature import bind
from shoal_converters.paths.tensorflow_models import SIGNATURE, open_model, rename

FILE = "model.tflite"


def convert(request: Request) -> Reply:
    """Write one file in float32; others are quantized from it.

    Raises:
        BadModel, BadRecipe: see `tensorflow_models`.
        PathFailed: the converter doesn't take the model.
    """
    with open_model(request) as model:
        inputs = rename(model.inputs, request.inputs, what="source.inputs")
        outputs = rename(model.outputs, request.outputs, what="source.outputs")
        try:
            converter = tensorflow.lite.TFLiteConverter.from_saved_model(model.folder, signature_keys=[SIGNATURE])
            content: bytes = converter.convert()
        except Exception as error:  # any of the compilers inside
            line = next(iter(f"{error}".strip().splitlines()), "")
            raise PathFailed(f"TensorFlow's converter doesn't take the model: {line}") from error
    Path(request.folder, FILE).write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        runner = tensorflow.lite.Interpreter(model_content=content).get_signature_runner(SIGNATURE)
    bindings = bind(inputs, _list(runner.get_input_details(), model.inputs), what=f"{FILE}: inputs")
    bindings += bind(outputs, _list(runner.get_output_details(), model.outputs), what=f"{FILE}: outputs")
    how = f"TensorFlow {tensorflow.__version__}, its converter"
    made = Made(name="tflite-fp32", format="tflite", precision="fp32", files=(FILE,), bindings=bindings, how=how)
    return Reply(made=(made,), inputs=inputs, outputs=outputs)


def _list(details: dict[str, Any], order: Sequence[Tensor]) -> list[Tensor]:
    tensors = []
    for one in order:
        found = details[one.name]
        shape = found["shape_signature"] if len(found["shape_signature"]) else found["shape"]
        dtype = np.dtype(found["dtype"]).name
        tensors.append(Tensor(name=found["name"], dtype=dtype, shape=tuple(map(int, shape))))
    return tensors
