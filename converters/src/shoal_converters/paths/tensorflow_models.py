"""How do a SavedModel and a Keras file become one function with named inputs and outputs?"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow
from google.protobuf.message import DecodeError
from shoal_wire.manifest import Tensor
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.paths.messages import Request

SIGNATURE = "serving_default"
PROGRAM = "saved_model.pb"
FREE = -1


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A SavedModel with the function that serves it."""

    folder: str
    function: Any
    inputs: tuple[Tensor, ...]
    """By the function's own names, in the order of the request's if it names the same."""
    outputs: tuple[Tensor, ...]
    loaded: Any
    """Has the variables, which the function alone doesn't keep alive."""


@contextlib.contextmanager
def open_model(request: Request) -> Iterator[ServedModel]:
    """Load the model; a Keras file is written as a SavedModel first, in a folder that lasts as long as the block.

    Raises:
        BadModel: the file or folder isn't what it should be, or has no function `serving_default` of plain tensors.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = request.source
        if request.format == "keras":
            folder = scratch
            _export_keras(request.source, folder=folder)
        elif (content := _leave_slots(Path(folder, PROGRAM))) is not None:
            for path in Path(folder).absolute().iterdir():
                if path.name != PROGRAM:
                    Path(scratch, path.name).symlink_to(path)
            folder = scratch
            Path(folder, PROGRAM).write_bytes(content)
        yield _load(folder, request)


def rename(found: Sequence[Tensor], wanted: Sequence[Tensor], *, what: str) -> tuple[Tensor, ...]:
    """Tensors of a function by the names that the recipe gives them, if any.

    Raises:
        BadRecipe: another number of names, or several other names: which is which, nobody could tell.
    """
    if not wanted or {one.name for one in wanted} == {one.name for one in found}:
        return tuple(found)
    if len(found) != 1 or len(wanted) != 1:
        names = ", ".join(one.name for one in found)
        raise BadRecipe(f"{what} has {', '.join(one.name for one in wanted)}; the model's names are {names}: use those")
    return (Tensor(name=wanted[0].name, dtype=found[0].dtype, shape=found[0].shape),)


def _leave_slots(path: Path) -> bytes | None:
    """A SavedModel's program without the variables that an optimizer has for each weight; None where it has none.

    Keras 2 saved them with models that were compiled. TensorFlow with Keras 3 knows no such optimizers and fails, and
    nothing that is converted needs them.
    """
    try:
        program = SavedModel.FromString(path.read_bytes())
    except (OSError, DecodeError):
        return None  # whoever loads it says what is wrong
    nodes = [node for graph in program.meta_graphs for node in graph.object_graph_def.nodes if node.slot_variables]
    for node in nodes:
        del node.slot_variables[:]
    content: bytes = program.SerializeToString(deterministic=True)
    return content if nodes else None


def _export_keras(path: str, *, folder: str) -> None:
    try:
        # Safe mode refuses a file that brings Python code: a Lambda layer.
        model = tensorflow.keras.models.load_model(path, compile=False, safe_mode=True)
        model.export(folder, verbose=False)
    except Exception as error:  # whatever Keras raises for a broken file or an unknown layer
        line = next(iter(f"{error}".strip().splitlines()), "")
        raise BadModel(f"{path}: Keras can't load or export it: {line}") from error


def _load(folder: str, request: Request) -> ServedModel:
    try:
        loaded = tensorflow.saved_model.load(folder)
        function = loaded.signatures[SIGNATURE]
    except Exception as error:  # missing files, unknown operators, no such signature
        line = next(iter(f"{error}".strip().splitlines()), "")
        raise BadModel(f"{request.source}: not a SavedModel with a function {SIGNATURE!r}: {line}") from error
    _, arguments = function.structured_input_signature
    return ServedModel(
        folder=folder,
        function=function,
        inputs=_list(arguments, wanted=request.inputs),
        # Keyed outputs leave a function in the order of their keys.
        outputs=_list(dict(sorted(function.structured_outputs.items())), wanted=request.outputs),
        loaded=loaded,
    )


def _list(specs: Mapping[str, Any], *, wanted: Sequence[Tensor]) -> tuple[Tensor, ...]:
    names = [one.name for one in wanted]
    if sorted(names) != sorted(specs):
        names = sorted(specs)
    tensors = []
    for name in names:
        shape = specs[name].shape
        if shape.rank is None:
            raise BadModel(f"tensor {name} of the model has no fixed rank")
        lengths = tuple(FREE if length is None else int(length) for length in shape)
        tensors.append(Tensor(name=name, dtype=specs[name].dtype.name, shape=lengths))
    return tuple(tensors)
