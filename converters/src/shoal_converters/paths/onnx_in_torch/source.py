"""How is an ONNX file that an earlier path made traced for another format, by the model's own names?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from shoal_wire.manifest import Binding, Tensor

from shoal_converters.paths.examples import Array, fix_shapes, make_examples
from shoal_converters.paths.messages import Request
from shoal_converters.paths.onnx_file import read_model, read_signature
from shoal_converters.paths.onnx_in_torch.module import OnnxModule, load_onnx
from shoal_converters.paths.signature import bind, narrow

HOW = f"from ONNX, its operators one by one in PyTorch, onnx {onnx.__version__}"


@dataclass(frozen=True, kw_only=True)
class TracedOnnx:
    """A module, with arrays to trace it with."""

    module: OnnxModule
    examples: Sequence[Array]
    fixed: Sequence[Tensor]
    """The file's inputs with the examples' shapes."""
    inputs: tuple[Tensor, ...]
    """Of the model's signature, in the order of the module's."""
    outputs: tuple[Tensor, ...]


def open_onnx(request: Request) -> TracedOnnx:
    """Load the file for a batch of 1.

    Raises:
        BadModel: not an ONNX file, or another signature than the request's.
        BadRecipe, BadData: see `examples`.
        PathFailed: see `load_onnx`.
    """
    path = Path(request.source)
    found_inputs, found_outputs = read_signature(read_model(path))
    bindings = bind(request.inputs, found_inputs, what=f"{path.name}: inputs")
    of_outputs = bind(request.outputs, found_outputs, what=f"{path.name}: outputs")
    fixed = fix_shapes(request, narrow(found_inputs, request.inputs, bindings=bindings), bindings=bindings)
    return TracedOnnx(
        module=load_onnx(path, fixed),
        examples=make_examples(request, fixed, bindings=bindings),
        fixed=fixed,
        inputs=_order(request.inputs or found_inputs, found_inputs, bindings),
        outputs=_order(request.outputs or found_outputs, found_outputs, of_outputs),
    )


def _order(mine: Sequence[Tensor], its: Sequence[Tensor], bindings: Sequence[Binding]) -> tuple[Tensor, ...]:
    """The signature's tensors in the order of the file's."""
    by_name = {one.name: one for one in mine}
    names = {binding.name: binding.tensor for binding in bindings}
    return tuple(by_name[names.get(one.name, one.name)] for one in its)
