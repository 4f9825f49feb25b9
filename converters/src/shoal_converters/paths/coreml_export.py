"""How does a model become a Core ML program that computes in float16, packed as one file?

Tensors of the file have names that Swift can use, the types that Core ML has, and a batch of 1, with which programs run
on the Neural Engine; bindings say how the model's signature has them.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shoal_wire.manifest import Tensor

from shoal_converters.errors import PathFailed
from shoal_converters.paths.coremltools_alone import coremltools
from shoal_converters.paths.messages import Made
from shoal_converters.paths.mlpackage import FILE, pack
from shoal_converters.paths.signature import bind

PACKAGE = "model.mlpackage"
TARGET = coremltools.target.iOS17
"""The oldest that runs all the programs which `coreml_weights` makes of these."""
DTYPES = {"float64": "float32", "float16": "float32", "int64": "int32", "int16": "int32", "int8": "int32"}
DTYPES |= {"uint8": "int32", "bool": "int32"}
"""What inputs and outputs are in Core ML, of those types that it has no tensors of or that older systems lack."""
ARRAYS = coremltools.proto.FeatureTypes_pb2.ArrayFeatureType
DTYPES_OF_FILE = {ARRAYS.FLOAT16: "float16", ARRAYS.FLOAT32: "float32", ARRAYS.DOUBLE: "float64", ARRAYS.INT32: "int32"}


def describe_inputs(tensors: Sequence[Tensor], names: Sequence[str] | None = None) -> list[Any]:
    """The same as coremltools wants it said, by a graph's names or such as a program may have. No axis is free."""
    return [
        coremltools.TensorType(name, one.shape, dtype=_choose_dtype(one))
        for one, name in zip(tensors, names or _clean_names(tensors), strict=True)
    ]


def describe_outputs(tensors: Sequence[Tensor], names: Sequence[str] | None = None) -> list[Any]:
    """The same as `describe_inputs`, but coremltools finds the shapes itself."""
    return [
        coremltools.TensorType(name, dtype=_choose_dtype(one))
        for one, name in zip(tensors, names or _clean_names(tensors), strict=True)
    ]


def export_coreml(
    model: Any,
    *,
    source: str,
    folder: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    inputs_of_file: Sequence[Any],
    outputs_of_file: Sequence[Any],
    how: str,
) -> Made:
    """Convert and pack. `inputs` and `outputs` are the model's signature; `source` is coremltools' name of a framework.

    `inputs_of_file` and `outputs_of_file` are the same tensors for coremltools, in the same order, by the names that
    they have in the framework's graph; PyTorch's have none and get these.

    Raises:
        PathFailed: coremltools doesn't take the model.
    """
    try:
        converted = coremltools.convert(
            model,
            convert_to="mlprogram",
            minimum_deployment_target=TARGET,
            compute_precision=coremltools.precision.FLOAT16,
            skip_model_load=True,
            source=source,
            inputs=list(inputs_of_file),
            outputs=list(outputs_of_file),
        )
    except Exception as error:  # any of its passes
        raise PathFailed(f"coremltools doesn't take the model: {type(error).__name__}: {_say(error)}") from error
    converted.save(f"{Path(folder, PACKAGE)}")
    found_inputs, found_outputs = list_tensors(converted.get_spec())
    bindings = bind(inputs, _order(found_inputs, inputs_of_file), what=f"{FILE}: inputs")
    bindings += bind(outputs, _order(found_outputs, outputs_of_file), what=f"{FILE}: outputs")
    return pack_coreml(folder, name="coreml-fp16", precision="fp16", bindings=bindings, how=f"{tool()}, {how}")


def pack_coreml(folder: str, *, name: str, precision: str, bindings: Sequence[Any], how: str) -> Made:
    """Put the package that lies in the folder into one file, in its place."""
    package = Path(folder, PACKAGE)
    file = f"{name}.zip" if name != "coreml-fp16" else FILE
    Path(folder, file).write_bytes(pack(package))
    shutil.rmtree(package)
    return Made(name=name, format="coreml", precision=precision, files=(file,), bindings=tuple(bindings), how=how)


def tool() -> str:
    """Name and version of what converts."""
    return f"coremltools {coremltools.__version__}, for {TARGET.name} or newer"


def list_tensors(spec: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs of a model's description. A shape that may vary is that of a batch of 1."""
    return _list(spec.description.input), _list(spec.description.output)


def _clean_names(tensors: Sequence[Tensor]) -> list[str]:
    """Of letters, digits and underscores, and none starts with a digit: what may stand in a program."""
    names: list[str] = []
    for one in tensors:
        cleaned = re.sub(r"[^A-Za-z0-9_]", "_", one.name)
        name = cleaned if cleaned[:1].isalpha() else f"t_{cleaned}"
        names.append(f"{name}_{len(names)}" if name in names else name)
    return names


def _choose_dtype(tensor: Tensor) -> type:
    return np.dtype(DTYPES.get(tensor.dtype, tensor.dtype)).type


def _list(features: Sequence[Any]) -> list[Tensor]:
    tensors = []
    for one in features:
        array = one.type.multiArrayType
        if array.dataType not in DTYPES_OF_FILE:
            raise PathFailed(f"Core ML program: {one.name} isn't an array of numbers: {one.type}")
        tensors.append(Tensor(name=one.name, dtype=DTYPES_OF_FILE[array.dataType], shape=tuple(array.shape)))
    return tensors


def _order(found: Sequence[Tensor], kinds: Sequence[Any]) -> list[Tensor]:
    by_name = {one.name: one for one in found}
    return [by_name[kind.name] for kind in kinds]


def _say(error: Exception) -> str:
    lines = [line.strip() for line in f"{error}".splitlines() if line.strip()]
    return " ".join(lines[:3])
