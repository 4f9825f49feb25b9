"""What is a TFLite file that is given? It stays as it is; its signature is read and LiteRT tries it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import ai_edge_litert
from shoal_wire.manifest import Tensor

from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.signature import Quantized, bind, complete
from shoal_converters.paths.tflite_file import (
    count_half_weights,
    has_integer_weights,
    load,
    read_file,
    read_quantization,
    read_signature,
    unpack,
)

FILE = "model.tflite"


def convert(request: Request) -> Reply:
    """Check and copy. Where inputs or outputs are quantized, the signature has them as float32, and bindings say how.

    Raises:
        BadModel: no TFLite file, one that LiteRT doesn't take, or of another signature than the recipe's.
    """
    source = Path(request.source)
    content = read_file(source)
    interpreter = load(content, what=source.name)
    quantized = read_quantization(interpreter)
    file_inputs, file_outputs = read_signature(interpreter)
    inputs = complete(request.inputs, _as_floats(file_inputs, quantized), what=f"{source.name}: inputs")
    outputs = complete(request.outputs, _as_floats(file_outputs, quantized), what=f"{source.name}: outputs")
    model = unpack(content)
    precision, notes = "fp32", []
    if has_integer_weights(model):
        precision = "int8"
        notes.append(f"{source.name} is quantized already: it is not the float original of anything")
    elif count_half_weights(model):
        precision = "fp16"
        notes.append(f"{source.name} has float16 weights, which LiteRT turns into float32 as it loads")
    Path(request.folder, FILE).write_bytes(content)
    made = Made(
        name="tflite-fp32",
        format="tflite",
        precision=precision,
        files=(FILE,),
        bindings=(
            *bind(inputs, file_inputs, what=f"{source.name}: inputs", quantized=quantized),
            *bind(outputs, file_outputs, what=f"{source.name}: outputs", quantized=quantized),
        ),
        how=f"as given, read by LiteRT {ai_edge_litert.__version__}",
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs, notes=tuple(notes))


def _as_floats(tensors: Sequence[Tensor], quantized: Mapping[str, Quantized]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(tensor.name, "float32" if tensor.name in quantized else tensor.dtype, tensor.shape) for tensor in tensors
    )
