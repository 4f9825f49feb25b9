"""How does a PyTorch model come out of a file or out of code, ready to be traced?

A `.pt2` holds a graph and weights, TorchScript a program for PyTorch's own interpreter. Nothing of either is unpickled
but tensors, so that they can't bring Python code along. `module:function` is Python code, with all rights of the user.
"""

import importlib
import inspect
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor
from torch._export.converter import TS2EPConverter

from shoal_converters.errors import BadModel, BadRecipe, PathFailed
from shoal_converters.paths.messages import Request

FREE = -1
PICKLED = ("custom_obj_", "opaque_obj_")
"""How files in a `.pt2` start that PyTorch would unpickle whatever they hold."""


class Positional(torch.nn.Module):  # type: ignore[misc]  # PyTorch is only where it converts
    """A module whose outputs are a flat tuple of tensors, by the order in which it gives them."""

    def __init__(self, module: torch.nn.Module) -> None:
        """Take over the module, whatever it gives: a tensor, a sequence, a dict of names."""
        super().__init__()
        # An exported program's module refuses to be told.
        self.training = False
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run it."""
        return tuple(torch.utils._pytree.tree_leaves(self.module(*inputs)))


def load_module(request: Request) -> torch.nn.Module:
    """The model in evaluation mode, on the CPU, its random parts drawn with a fixed seed.

    Raises:
        BadModel: the file isn't of its format, or needs what isn't here.
        BadRecipe: no such code, or it gives something else.
    """
    torch.manual_seed(0)
    return LOADERS[request.format](request)


def list_inputs(request: Request, module: torch.nn.Module) -> tuple[Tensor, ...]:
    """The signature's inputs; an exported program knows its own, but no other.

    Raises:
        BadRecipe: the recipe says nothing, or as many inputs as the program doesn't have, or other fixed lengths.
    """
    known = _list_placeholders(module) if request.format == "torch-export" else ()
    if not known:
        if not request.inputs:
            raise BadRecipe(
                f"{request.source}: {request.format} doesn't tell its inputs: write name, dtype and shape of each into "
                "the recipe's source.inputs, in the order of the arguments"
            )
        return request.inputs
    if not request.inputs:
        return known
    if len(known) != len(request.inputs):
        raise BadRecipe(f"{request.source}: has {len(known)} inputs, source.inputs of the recipe {len(request.inputs)}")
    return tuple(_merge(mine, its, what=request.source) for mine, its in zip(request.inputs, known, strict=True))


def find_outputs(
    request: Request, module: torch.nn.Module, make: Callable[[int], Sequence[NDArray[Any]]], *, is_free: bool
) -> tuple[Tensor, ...]:
    """The signature's outputs, found by running the model; `make` gives inputs of a batch.

    `is_free`: the batch is; an axis that grows with it is free too.

    Raises:
        BadRecipe: another number of names than of outputs.
        BadModel: the model can't be run with such inputs, or gives no tensors.
    """
    outputs = run(module, make(1))
    names = name_outputs(request, count=len(outputs))
    others = run(module, make(2)) if is_free else outputs
    return tuple(
        Tensor(
            name=name,
            dtype=one.dtype.name,
            shape=tuple(a if a == b else FREE for a, b in zip(one.shape, other.shape, strict=True)),
        )
        for name, one, other in zip(names, outputs, others, strict=True)
    )


def name_outputs(request: Request, *, count: int) -> list[str]:
    """As the recipe names them; `output` or `output_<place>` where it doesn't. Raises BadRecipe: another number."""
    if not request.outputs:
        return ["output"] if count == 1 else [f"output_{place}" for place in range(count)]
    if len(request.outputs) != count:
        raise BadRecipe(f"{request.source}: gives {count} outputs, source.outputs of the recipe {len(request.outputs)}")
    return [one.name for one in request.outputs]


def run(module: torch.nn.Module, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Outputs as arrays. Raises BadModel: it fails, or gives no tensors."""
    shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in inputs)
    try:
        with torch.no_grad():
            outputs = Positional(module)(*(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs))
    except Exception as error:  # any of its operators
        raise BadModel(f"the model fails with inputs {shapes}: {type(error).__name__}: {first_line(error)}") from error
    if not all(isinstance(one, torch.Tensor) for one in outputs):
        raise BadModel(f"the model gives {[type(one).__name__ for one in outputs]}, expected tensors only")
    return [one.numpy() for one in outputs]


def make_exportable(module: torch.nn.Module, examples: Sequence[NDArray[Any]]) -> torch.nn.Module:
    """A module that `torch.export` takes: TorchScript becomes an exported program, by what PyTorch's message names.

    Raises:
        PathFailed: it has what can't be exported.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        return module
    arguments = tuple(torch.from_numpy(np.ascontiguousarray(example)) for example in examples)
    try:
        exportable: torch.nn.Module = TS2EPConverter(module, arguments).convert().module()
    except Exception as error:  # whatever of TorchScript it doesn't know
        raise PathFailed(f"PyTorch can't make an exported program of this TorchScript: {first_line(error)}") from error
    return exportable


def first_line(error: BaseException) -> str:
    """Of what an error says: the rest are stacks and advice for developers."""
    return next(iter(f"{error}".strip().splitlines()), "")


def call_code(request: Request) -> object:
    """What `module:function` gives.

    Raises:
        BadRecipe: no such module or function, or it raises.
    """
    module_name, _, function_name = request.source.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise BadRecipe(
            f"{request.source}: {error}; looked also in {request.code_folder or 'no other folder'}"
        ) from error
    if not callable(function):
        raise BadRecipe(f"{request.source}: expected a function without arguments, found {type(function).__name__}")
    try:
        return function()
    except Exception as error:
        raise BadRecipe(f"{request.source}: raised {type(error).__name__}: {first_line(error)}") from error


def _load_export(request: Request) -> torch.nn.Module:
    # Else it tries once more without this limit where unpickling fails.
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        with zipfile.ZipFile(request.source) as archive:
            objects = [name for name in archive.namelist() if Path(name).name.startswith(PICKLED)]
        if objects:
            raise BadModel(f"{request.source}: holds the pickled object {objects[0]}, expected tensors only")
        program = torch.export.load(request.source)
        # Guards compare shapes with those of the export; a tool that traces would write them into the file.
        options = {"check_guards": False} if "check_guards" in inspect.signature(program.module).parameters else {}
        module: torch.nn.Module = program.module(**options)
    except BadModel:
        raise
    except Exception as error:
        raise BadModel(f"{request.source}: not an exported program of PyTorch: {first_line(error)}") from error
    return module


def _load_script(request: Request) -> torch.nn.Module:
    try:
        module = torch.jit.load(request.source, map_location="cpu")
    except Exception as error:
        raise BadModel(
            f"{request.source}: not TorchScript: {first_line(error)}; a pickled module or a state dict is no model by "
            "itself: name the code that makes the model as module:function"
        ) from error
    return module.eval()


def _load_code(request: Request) -> torch.nn.Module:
    module = call_code(request)
    if not isinstance(module, torch.nn.Module):
        raise BadRecipe(f"{request.source}: gives {type(module).__name__}, expected a torch.nn.Module")
    return module.eval().to("cpu", torch.float32 if _is_half(module) else None)


LOADERS: dict[str, Callable[[Request], torch.nn.Module]] = {
    "torch-export": _load_export,
    "torchscript": _load_script,
    "torch-code": _load_code,
}


def _is_half(module: torch.nn.Module) -> bool:
    return any(one.dtype in (torch.float16, torch.bfloat16) for one in module.parameters())


def _list_placeholders(module: torch.nn.Module) -> tuple[Tensor, ...]:
    assert isinstance(module, torch.fx.GraphModule)
    tensors = []
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            shape = tuple(length if isinstance(length, int) else FREE for length in value.shape)
            tensors.append(Tensor(name=node.name, dtype=f"{value.dtype}".removeprefix("torch."), shape=shape))
    return tuple(tensors)


def _merge(mine: Tensor, its: Tensor, *, what: str) -> Tensor:
    fits = mine.dtype == its.dtype and len(mine.shape) == len(its.shape)
    if not fits or any(a != b for a, b in zip(mine.shape, its.shape, strict=True) if FREE not in (a, b)):
        raise BadRecipe(
            f"{what}: input {mine.name} is {its.dtype}{list(its.shape)}, the recipe says {mine.dtype}{list(mine.shape)}"
        )
    # A length that was fixed when the program was exported can't be freed again; one that is free can be fixed.
    shape = tuple(a if b == FREE else b for a, b in zip(mine.shape, its.shape, strict=True))
    return Tensor(name=mine.name, dtype=mine.dtype, shape=shape)
