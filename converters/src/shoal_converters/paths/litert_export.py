"""How does a traceable PyTorch module become a TFLite file whose tensors are known by the model's signature?

LiteRT's converter fixes all shapes, numbers inputs and outputs, and names the tensors as it likes: bindings say how.
"""

import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import litert_torch
import msgspec
import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadRecipe, PathFailed
from shoal_converters.paths.messages import Made, Request
from shoal_converters.paths.signature import bind
from shoal_converters.paths.torch_models import Positional, first_line

FILE = "model.tflite"
SIGNATURE = "serving_default"
PICTURE_RANK = 4


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Request.options` of the paths that end here."""

    channels_last: bool = False
    """Pictures go in and come out as height, width, channels, whatever the model's signature says."""


def read_export_options(request: Request) -> ExportOptions:
    """Raises BadRecipe: an unknown option, or a value of another type."""
    try:
        return msgspec.convert(request.options, ExportOptions)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"options for tflite-fp32: {error}") from None


def export_tflite(
    module: torch.nn.Module,
    *,
    folder: str,
    examples: Sequence[NDArray[Any]],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    is_channel_last: bool,
    how: str,
) -> Made:
    """Write the file for the examples' shapes; `inputs` and `outputs` are the model's signature.

    `is_channel_last`: inputs and outputs of rank 4 have their channels last in the file, as cameras and TFLite's own
    operators have them; the bindings say so.

    Raises:
        PathFailed: the converter doesn't take the model.
    """
    arguments = tuple(torch.from_numpy(np.ascontiguousarray(example)) for example in examples)
    wrapped: torch.nn.Module = Positional(module)
    if is_channel_last:
        wrapped, arguments = _put_channels_last(wrapped, arguments, outputs=outputs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = litert_torch.convert(wrapped, arguments)
        model.export(f"{Path(folder, FILE)}")
    except Exception as error:  # any of the compilers inside
        # Before it lies where in our sources the operator was traced.
        reason = first_line(error).rpartition(" error: ")[-1]
        raise PathFailed(f"litert-torch doesn't take the model: {type(error).__name__}: {reason}") from error
    found_inputs, found_outputs = _read_signature(Path(folder, FILE).read_bytes())
    bindings = bind(inputs, found_inputs, what=f"{FILE}: inputs")
    bindings += bind(outputs, found_outputs, what=f"{FILE}: outputs")
    tools = f"litert-torch {version('litert-torch')}, torch {torch.__version__}"
    return Made(
        name="tflite-fp32",
        format="tflite",
        precision="fp32",
        files=(FILE,),
        bindings=bindings,
        how=f"{tools}{how}{', channels last' if is_channel_last else ''}",
    )


def _put_channels_last(
    module: torch.nn.Module, arguments: tuple[torch.Tensor, ...], *, outputs: Sequence[Tensor]
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    of_inputs = [place for place, one in enumerate(arguments) if one.ndim == PICTURE_RANK]
    of_outputs = [place for place, one in enumerate(outputs) if len(one.shape) == PICTURE_RANK]
    turned = litert_torch.to_channel_last_io(module, args=of_inputs, outputs=of_outputs)
    moved = (one.permute(0, 2, 3, 1).contiguous() if one.ndim == PICTURE_RANK else one for one in arguments)
    return turned, tuple(moved)


def _read_signature(model: bytes) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs by the numbers that the converter gave them."""
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner(SIGNATURE)
    return _list(runner.get_input_details()), _list(runner.get_output_details())


def _list(details: dict[str, Any]) -> list[Tensor]:
    numbered = sorted(details.items(), key=lambda item: int(item[0].rpartition("_")[2]))
    return [
        Tensor(name=one["name"], dtype=np.dtype(one["dtype"]).name, shape=tuple(map(int, one["shape"])))
        for _, one in numbered
    ]
