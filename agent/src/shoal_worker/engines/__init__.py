"""Which engines can a worker load, and what does it ask of each?

One engine is one module here with a function `load`. Its library is imported in that module only, so that a worker's
interpreter needs the one engine that it runs. An engine of somebody else is a module like these in a package of its
own, which names it in the entry-point group `shoal.engines` as `<engine>.<format>`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from shoal_worker.errors import BadTensor, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.messages import MAX_NAME, MAX_RANK, MAX_TENSORS, Load, TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

ENGINES = {
    "onnxruntime": "onnxruntime_engine",
    "litert": "litert_engine",
    "tflite-runtime": "tflite_runtime_engine",
    "openvino": "openvino_engine",
    "tensorrt": "tensorrt_engine",
}
PLUG_INS = "shoal.engines"
MAX_REASON = 500  # characters of an engine's own message


class Inference(Protocol):
    """One run of a model on inputs that fit it."""

    def run(self) -> dict[str, Array]:
        """The outputs by name, in the model's order. The next run may write over them.

        Raises:
            RunCancelled: `cancel` was called, before or during the run.
            EngineFailed: anything else that the engine reports.
        """

    def cancel(self) -> None:
        """Stop the run, from any thread and at any time. Without effect when it is over.

        An engine that can't stop a run goes on; a run that hasn't started yet never starts.
        """


class WholeInference:
    """An inference of an engine that can't stop a run: one that has started goes on to its end."""

    def __init__(self, compute: Callable[[Mapping[str, Array]], dict[str, Array]], feeds: Mapping[str, Array]) -> None:
        """`compute` is the run; it raises EngineFailed."""
        self._compute = compute
        self._feeds = dict(feeds)
        self._is_cancelled = False

    def run(self) -> dict[str, Array]:
        """See `Inference.run`."""
        if self._is_cancelled:
            raise RunCancelled("the run was cancelled before it started")
        return self._compute(self._feeds)

    def cancel(self) -> None:
        """See `Inference.cancel`."""
        self._is_cancelled = True


class Engine(Protocol):
    """One loaded model. `plan`, where it isn't None, can be loaded in place of the model next time on this board."""

    version: str
    placement: tuple[str, ...]
    devices: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    plan: bytes | None

    def prepare(self, feeds: Mapping[str, Array]) -> Inference:
        """Check the inputs and make a run of them. The arrays are used, not copied. One run at a time.

        Raises:
            BadTensor: they don't fit the model's signature.
        """


class Adapter(Protocol):
    """The module of an engine. `FORMATS` says of how many files a model in each format consists."""

    FORMATS: Mapping[str, int]

    def load(self, request: Load, *, files: Sequence[bytes]) -> Engine:
        """Load a model from the bytes of its files.

        Raises:
            EngineMissing: the installation lacks what the request asks for.
            ModelRefused: the engine doesn't take the model.
        """


def load_engine(request: Load, *, files: Sequence[bytes]) -> Engine:
    """Load a model in the engine that the request names.

    Raises:
        EngineMissing: no such engine, or this interpreter can't import it or lacks what the request asks for.
        ModelRefused: the engine doesn't take the model.
    """
    try:
        adapter: Adapter = importlib.import_module(_module_of(request))
    except ImportError as error:
        raise EngineMissing(f"{sys.executable} can't import engine {request.engine}: {error}") from error
    if request.format not in adapter.FORMATS:
        takes = ", ".join(adapter.FORMATS)
        raise ModelRefused(f"engine {request.engine} takes {takes}; found a model in format {request.format!r}")
    expected = adapter.FORMATS[request.format]
    if len(files) != expected:
        raise ModelRefused(f"a model in format {request.format} has {expected} file(s) here, found {len(files)}")
    engine = adapter.load(request, files=files)
    for tensors in (engine.inputs, engine.outputs):
        _check_signature(tensors)
    return engine


def _module_of(request: Load) -> str:
    if request.engine in ENGINES:
        return f"{__name__}.{ENGINES[request.engine]}"
    name = f"{request.engine}.{request.format}"
    for entry in _plug_ins():
        if entry.name == name:
            return entry.value
    raise EngineMissing(
        f"engine must be one of {', '.join(ENGINES)} or a plug-in for format {request.format} in {sys.executable}; "
        f"found {request.engine!r}"
    )


def _plug_ins() -> Sequence[metadata.EntryPoint]:
    found: Any = metadata.entry_points()
    if hasattr(found, "select"):  # from Python 3.10 on
        return tuple(found.select(group=PLUG_INS))
    return tuple(found.get(PLUG_INS, ()))


def _check_signature(tensors: Sequence[TensorSpec]) -> None:
    """Refuse a model whose inputs or outputs don't fit into messages."""
    if len(tensors) > MAX_TENSORS:
        raise ModelRefused(f"a model may have {MAX_TENSORS} inputs and as many outputs, found {len(tensors)}")
    names = [spec.name for spec in tensors]
    if len(set(names)) < len(names):
        raise ModelRefused(
            f"inputs and outputs must each have a name of their own, found {', '.join(names)[:MAX_REASON]}"
        )
    for spec in tensors:
        if len(spec.name) > MAX_NAME or len(spec.shape) > MAX_RANK:
            raise ModelRefused(
                f"an input or output may have a name of {MAX_NAME} characters and {MAX_RANK} dimensions, "
                f"found {len(spec.name)} and {len(spec.shape)}"
            )


def check_feeds(feeds: Mapping[str, Array], *, inputs: Sequence[TensorSpec]) -> None:
    """Check arrays against a signature.

    Raises:
        BadTensor: an input is missing, unknown, or of another type or shape.
    """
    expected = {spec.name: spec for spec in inputs}
    if feeds.keys() != expected.keys():
        raise BadTensor(f"the model's inputs are {sorted(expected)}, found {sorted(feeds)}")
    for name, array in feeds.items():
        spec = expected[name]
        fits = len(array.shape) == len(spec.shape) and all(
            length is None or length == found for length, found in zip(spec.shape, array.shape)
        )
        if _type_name(array.dtype) != spec.dtype or not fits:
            shape = ", ".join("any" if length is None else str(length) for length in spec.shape)
            found = ", ".join(str(length) for length in array.shape)
            raise BadTensor(f"input {name!r} is {spec.dtype} [{shape}], found {_type_name(array.dtype)} [{found}]")


@functools.lru_cache(maxsize=64)
def _type_name(dtype: Any) -> str:
    """NumPy's name of a type, which takes longer to make than a small model takes to run."""
    name: str = dtype.name
    return name


def check_precision(request: Load, *, known: Sequence[str]) -> None:
    """Refuse a precision that an engine has no rule for.

    Raises:
        ModelRefused: the precision isn't among the known.
    """
    if request.precision not in known:
        raise ModelRefused(f"precision must be one of {', '.join(known)}; found {request.precision!r}")


def check_device(request: Load, *, devices: Sequence[str]) -> None:
    """Refuse a device that the engine doesn't list on this board.

    Raises:
        EngineMissing: the device isn't among them.
    """
    if request.device and request.device not in devices:
        raise EngineMissing(f"engine {request.engine} lists {', '.join(devices)} here; found {request.device!r}")


def reason(error: Exception) -> str:
    """An engine's own message, on one line and cut to a length that can be shown."""
    return " ".join(str(error).split())[:MAX_REASON]
