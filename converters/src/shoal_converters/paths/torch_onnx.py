"""How does a PyTorch model become an ONNX file?

By the exporter that goes through `torch.export`; TorchScript, and what that can't take, by the older one that traces.
"""

import io
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import onnx
import torch
from msgspec import Meta
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadRecipe, PathFailed
from shoal_converters.paths.examples import make_examples
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.torch_models import (
    FREE,
    Positional,
    first_line,
    list_inputs,
    load_module,
    name_outputs,
    run,
)

FILE = "model.onnx"
EXAMPLE_BATCH = 2  # an axis of length 1 is taken for one that always has it
NEWEST_TRACED_OPSET = 18


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Request.options`."""

    opset: Annotated[int, Meta(ge=17, le=20)] = 18
    """18 is what the exporter writes by itself."""


def convert(request: Request) -> Reply:
    """Write one file, its weights inside.

    Raises:
        BadModel, BadRecipe, BadData: see `torch_models` and `examples`.
        PathFailed: no exporter takes the model.
    """
    try:
        options = msgspec.convert(request.options, Options)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"options for onnx-fp32: {error}") from None
    module = load_module(request)
    inputs = list_inputs(request, module)
    examples = make_examples(request, inputs, batch=EXAMPLE_BATCH)
    outputs = name_outputs(request, count=len(run(module, examples)))
    model, how, notes = _export(module, inputs=inputs, outputs=outputs, examples=examples, opset=options.opset)
    _strip(model)
    Path(request.folder, FILE).write_bytes(model.SerializeToString(deterministic=True))
    made = Made(name="onnx-fp32", format="onnx", precision="fp32", files=(FILE,), how=how)
    return Reply(
        made=(made,), inputs=_signature(model.graph.input), outputs=_signature(model.graph.output), notes=notes
    )


def _export(
    module: torch.nn.Module,
    *,
    inputs: Sequence[Tensor],
    outputs: Sequence[str],
    examples: Sequence[NDArray[Any]],
    opset: int,
) -> tuple[Any, str, tuple[str, ...]]:
    """An onnx.ModelProto, how it was made, and notes."""
    arguments = tuple(torch.from_numpy(example) for example in examples)
    axes = [_name_axes(one) for one in inputs]
    names = {"input_names": [one.name for one in inputs], "output_names": list(outputs)}
    tool = f"torch {torch.__version__}"
    notes: tuple[str, ...] = ()
    if not isinstance(module, torch.jit.ScriptModule):
        try:
            program = torch.onnx.export(
                Positional(module),
                arguments,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=(tuple(axes),) if any(axes) else None,
                external_data=False,
                verbose=False,
                **names,
            )
            assert program is not None
            how = f"{tool}, its exporter through torch.export, with onnxscript {version('onnxscript')}, opset {opset}"
            return program.model_proto, how, notes
        except Exception as error:  # also what its own checks raise
            notes = (f"traced, since torch.export doesn't take the model: {first_line(error)}",)
    traced_opset = min(opset, NEWEST_TRACED_OPSET)
    try:
        model = _trace(Positional(module), arguments, axes=axes, names=names, opset=traced_opset)
    except Exception as error:
        also = f" ({notes[0]})" if notes else ""
        raise PathFailed(f"no ONNX from this model: {first_line(error)}{also}") from error
    return model, f"{tool}, its tracing exporter, opset {traced_opset}", notes


def _trace(
    module: torch.nn.Module,
    arguments: tuple[torch.Tensor, ...],
    *,
    axes: Sequence[dict[int, str]],
    names: dict[str, list[str]],
    opset: int,
) -> Any:
    with torch.no_grad():
        traced = torch.jit.trace(module, arguments, check_trace=False)
        others = [one.ndim for one in traced(*arguments)]
    is_free = any(0 in one for one in axes)
    dynamic = dict(zip(names["input_names"], axes, strict=True))
    if is_free:
        # Which axes of an output vary isn't known to a trace; the batch does.
        dynamic |= {name: {0: "batch"} for name, rank in zip(names["output_names"], others, strict=True) if rank}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(traced, arguments, file, dynamo=False, opset_version=opset, dynamic_axes=dynamic, **names)
    return onnx.load_from_string(file.getvalue())


def _name_axes(tensor: Tensor) -> dict[int, str]:
    """The free ones. Inputs whose batches have one name have one length."""
    free = [axis for axis, length in enumerate(tensor.shape) if length == FREE]
    return {axis: "batch" if axis == 0 else f"{tensor.name}_{axis}" for axis in free}


def _strip(model: Any) -> None:
    """Remove what only says where on this machine the code lay that made a node."""
    graphs = [model.graph]
    del model.metadata_props[:]
    for function in model.functions:
        del function.metadata_props[:]
    while graphs:
        graph = graphs.pop()
        del graph.metadata_props[:]
        for part in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            del part.metadata_props[:]
            part.ClearField("doc_string")
        graphs += [one.g for node in graph.node for one in node.attribute if one.HasField("g")]


def _signature(values: Sequence[Any]) -> tuple[Tensor, ...]:
    tensors = []
    for value in values:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        shape = tuple(one.dim_value if one.HasField("dim_value") else FREE for one in kind.shape.dim)
        tensors.append(Tensor(name=value.name, dtype=dtype, shape=shape))
    return tuple(tensors)
