"""How does a PyTorch model become a Core ML program? Traced with a batch of 1, then by coremltools."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from shoal_wire.manifest import Tensor

from shoal_converters.errors import PathFailed
from shoal_converters.paths.coreml_export import describe_inputs, describe_outputs, export_coreml
from shoal_converters.paths.examples import Array, fix_shapes, make_examples
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.torch_models import (
    FREE,
    Positional,
    find_outputs,
    first_line,
    list_inputs,
    load_module,
    make_exportable,
)


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe, BadData: see `torch_models` and `examples`.
        PathFailed: the model can't be traced, or coremltools doesn't take it.
    """
    module = load_module(request)
    inputs = list_inputs(request, module)
    is_free = any(one.shape[:1] == (FREE,) for one in inputs)
    outputs = find_outputs(request, module, lambda batch: make_examples(request, inputs, batch=batch), is_free=is_free)
    fixed = fix_shapes(request, inputs)
    made = trace_to_coreml(
        module,
        folder=request.folder,
        examples=make_examples(request, fixed),
        fixed=fixed,
        inputs=inputs,
        outputs=outputs,
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs)


def trace_to_coreml(
    module: torch.nn.Module,
    *,
    folder: str,
    examples: Sequence[Array],
    fixed: Sequence[Tensor],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    how: str = "",
) -> Made:
    """Trace with the examples, convert, pack; `fixed` are the inputs in the examples' shapes.

    Raises:
        PathFailed: the model can't be traced, or coremltools doesn't take it.
    """
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = _trace(module, examples)
    except Exception as error:  # any operator of the model
        raise PathFailed(f"the model can't be traced: {type(error).__name__}: {first_line(error)}") from error
    return export_coreml(
        traced,
        folder=folder,
        inputs=inputs,
        outputs=outputs,
        how=f"traced with torch {torch.__version__}{how}",
        source="pytorch",
        inputs_of_file=describe_inputs(fixed),
        outputs_of_file=describe_outputs(outputs),
    )


def _trace(module: torch.nn.Module, examples: Sequence[Array]) -> torch.jit.ScriptModule:
    arguments = tuple(torch.from_numpy(np.ascontiguousarray(example)) for example in examples)
    if isinstance(module, torch.jit.ScriptModule):
        try:
            module = make_exportable(module, examples)
        except PathFailed:
            # Freezing decides branches on what can't change any more, such as whether the module is in training.
            frozen: torch.jit.ScriptModule = torch.jit.freeze(module)
            return frozen
    if isinstance(module, torch.fx.GraphModule):
        # Once more, so that lengths which were free are numbers.
        module = torch.export.export(module, arguments).module()
    traced: torch.jit.ScriptModule = torch.jit.trace(Positional(module), arguments, check_trace=False)
    return traced
