"""What does a Core ML program compute? Read by coremltools' own loader, run in PyTorch, operation by operation.

Core ML itself runs on Apple's systems only. Here each operation computes in float32, and its result is rounded to the
type that the program gives it: that shows what float16, small weights and palettes do to answers, not what one of
Apple's processors does beyond that. Control flow and state aren't interpreted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shoal_converters.errors import BadModel, PathFailed
from shoal_converters.paths.coreml_in_torch.elementwise import ELEMENTWISE, Operator
from shoal_converters.paths.coreml_in_torch.layers import LAYERS
from shoal_converters.paths.coreml_in_torch.operation import Argument, Operation, to_tensor
from shoal_converters.paths.coreml_in_torch.shapes import SHAPES
from shoal_converters.paths.coremltools_alone import coremltools

Array = NDArray[Any]

OPERATORS: Mapping[str, Operator] = {**ELEMENTWISE, **SHAPES, **LAYERS}
WEIGHTS = Path("Data", "com.apple.CoreML", "weights")
MAIN = "main"
MIL = coremltools.converters.mil


class Program:
    """A program whose constants are in memory."""

    def __init__(self, package: Path) -> None:
        """Read an .mlpackage folder.

        Raises:
            BadModel: coremltools doesn't read it, or it isn't an ML program.
            PathFailed: it has operators that aren't interpreted here, each by name.
        """
        try:
            spec = coremltools.utils.load_spec(f"{package}")
            if spec.WhichOneof("Type") != "mlProgram":
                raise BadModel(f"{package.name}: expected an ML program, found {spec.WhichOneof('Type')}")
            program = MIL.frontend.milproto.load.load(
                spec,
                specification_version=spec.specificationVersion,
                file_weights_dir=f"{package / WEIGHTS}",
            )
        except BadModel:
            raise
        except Exception as error:  # of Protocol Buffers, the loader, the system
            raise BadModel(f"{package.name}: coremltools can't read the program: {error}") from error
        self.spec = spec
        function = program.functions[MAIN]
        self._operations = [one for one in function.operations if one.op_type != "const"]
        self._inputs = dict(function.inputs)
        self._outputs = list(function.outputs)
        unknown = sorted({one.op_type for one in self._operations} - set(OPERATORS))
        if unknown:
            raise PathFailed(f"Core ML operators that aren't interpreted here: {', '.join(unknown)}")
        self._constants: dict[str, Tensor] = {}

    @property
    def operators(self) -> list[str]:
        """Of all operations, in their order."""
        return [one.op_type for one in self._operations]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by their names in the file, in the types that it says.

        Raises:
            BadModel: inputs that the program doesn't have.
            PathFailed: an operation has arguments that aren't supported here.
        """
        if set(feeds) != set(self._inputs):
            raise BadModel(f"the program has inputs {sorted(self._inputs)}, given were {sorted(feeds)}")
        values = {name: _round(to_tensor(array), self._inputs[name]) for name, array in feeds.items()}
        with torch.no_grad():
            for one in self._operations:
                values.update(self._compute(one, values))
        return {var.name: values[var.name].numpy().astype(_dtype(var)) for var in self._outputs}

    def _compute(self, operation: Any, values: dict[str, Tensor]) -> dict[str, Tensor]:
        name = operation.outputs[0].name
        if name in self._constants:
            return {name: self._constants[name]}
        arguments = {key: self._read(var, values) for key, var in operation.inputs.items() if var is not None}
        found = OPERATORS[operation.op_type](
            Operation(
                operator=operation.op_type, name=operation.name, arguments=arguments, count=len(operation.outputs)
            )
        )
        outputs = (found,) if isinstance(found, Tensor) else found
        made = {var.name: _round(value, var) for var, value in zip(operation.outputs, outputs, strict=False)}
        if operation.op_type.startswith("constexpr_"):
            self._constants.update(made)  # small weights are unpacked once
        return made

    def _read(self, var: Any, values: Mapping[str, Tensor]) -> Argument:
        if isinstance(var, list | tuple):
            return [self._read_tensor(one, values) for one in var]
        if isinstance(var.val, str):
            return var.val
        return self._read_tensor(var, values)

    def _read_tensor(self, var: Any, values: Mapping[str, Tensor]) -> Tensor:
        if var.name in values:
            return values[var.name]
        if var.name not in self._constants:
            self._constants[var.name] = to_tensor(np.asarray(var.val))
        return self._constants[var.name]


def _round(value: Tensor, var: Any) -> Tensor:
    """A result in the precision of the type that the program gives it."""
    if not value.is_floating_point() or _dtype(var) != np.float16:
        return value
    return value.to(torch.float16).to(torch.float32)


def _dtype(var: Any) -> Any:
    return MIL.mil.types.nptype_from_builtin(var.dtype)
