"""What do the paths that quantize share: options, calls of the calibration set, and the search for what breaks?

A layer is what a tool can leave in float by itself: a node, an operator. Tools name them, and list them in the reply.
"""

import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from shoal_wire.manifest import Binding

from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.paths.messages import Request
from shoal_converters.paths.signature import to_file

Array = NDArray[Any]
Feeds = dict[str, Array]
Outputs = Sequence[Mapping[str, Array]]

MAX_LAYERS = 20_000
LARGEST_CHANGE = 1e6
SWITCHES = ("full_range", "is_compute_only", "correct_bias", "smooth")
LayerName = Annotated[str, Meta(max_length=10_000)]
Layers = Annotated[tuple[LayerName, ...], Meta(max_length=MAX_LAYERS)]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Request.options` of a path that quantizes. What a tool doesn't have, it refuses."""

    method: str = "minmax"
    """How the range of an activation is found from what it was in the calibration set."""
    per_channel: bool = True
    """A scale for each channel of the weights, not one for all."""
    full_range: bool = False
    """Weights have 8 bits, not 7. On x86 CPUs without VNNI the sum of two products of 8 bits by 8 overflows 16."""
    is_compute_only: bool = False
    """Only convolutions and matrix products are quantized, not what lies between them (not OpenVINO)."""
    correct_bias: bool = False
    """Correct biases layer by layer by what was measured, instead of all at once (OpenVINO)."""
    smooth: bool = False
    """Move ranges from activations to weights first: SmoothQuant (Xiao et al., 2022); for transformers (OpenVINO)."""
    float_layers: Layers = ()
    """Which aren't quantized."""
    calls: Annotated[int, Meta(ge=1)] = 300
    """At most so many of the calibration set."""
    groups: Annotated[tuple[Layers, ...], Meta(max_length=MAX_LAYERS)] = ()
    """Not empty: nothing is made, but for each group it is measured how far outputs move if only it is quantized."""
    measure_calls: Annotated[int, Meta(ge=1)] = 8
    measure_s: Annotated[float, Meta(gt=0)] = 60.0
    """Time for that; for groups that it doesn't suffice for, nothing is said."""


def read_options(request: Request) -> Options:
    """Raises BadRecipe: an unknown option, or a value of another type."""
    try:
        return msgspec.convert(request.options, Options)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"options for {', '.join(request.variants)}: {error}") from None


def check_options(options: Options, *, methods: Mapping[str, object], switches: Sequence[str], what: str) -> None:
    """Raises BadRecipe: a method that a tool doesn't have, or one of SWITCHES turned on that isn't one of its own."""
    if options.method not in methods:
        raise BadRecipe(f"{what}: expected a method out of {', '.join(methods)}, found {options.method!r}")
    foreign = [name for name in SWITCHES if getattr(options, name) and name not in switches]
    if foreign:
        raise BadRecipe(f"{what}: has no {', '.join(foreign)}")


class Calibration:
    """The calls of a calibration set, in a file's form. One is in memory at a time."""

    def __init__(self, request: Request, *, bindings: Sequence[Binding], limit: int) -> None:
        """Open the request's .npz and look at its names.

        Raises:
            BadData: there is none, it isn't an .npz, or it holds no call.
        """
        if not request.calibration:
            raise BadData(f"{', '.join(request.variants)}: needs a calibration set, the recipe names none")
        try:
            self._arrays = np.load(request.calibration, allow_pickle=False)
            names = [name.partition("/") for name in self._arrays.files]
        except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
            raise BadData(f"{request.calibration}: not an .npz of calls: {error}") from None
        self._bindings = bindings
        calls: dict[int, list[str]] = {}
        for call, _, tensor in names:
            if not call.isdecimal() or not tensor:
                raise BadData(f"{request.calibration}: expected arrays <call>/<input>, found {call!r}")
            calls.setdefault(int(call), []).append(tensor)
        if not calls:
            raise BadData(f"{request.calibration}: holds no call")
        self._calls = dict(sorted(calls.items())[:limit])

    def __len__(self) -> int:
        return len(self._calls)

    def read(self, start: int = 0, end: int | None = None) -> Iterator[Feeds]:
        """The calls from number `start` to before `end`, in their order."""
        for call, names in list(self._calls.items())[start:end]:
            arrays = {name: self._arrays[f"{call}/{name}"] for name in names}
            yield to_file(arrays, self._bindings)


def relative_change(reference: Outputs, changed: Outputs) -> float:
    """Root mean square of the differences, relative to that of the reference: the largest of all outputs.

    Outputs that aren't numbers of a scale (indices, flags) don't count. At most LARGEST_CHANGE, which also stands for
    outputs that aren't finite or have another shape.
    """
    largest = 0.0
    for name, first in reference[0].items():
        if first.dtype.kind != "f":
            continue
        squares = difference = 0.0
        for mine, its in zip(reference, changed, strict=True):
            a, b = mine[name].astype(np.float64), its[name].astype(np.float64)
            if a.shape != b.shape or not np.isfinite(b).all():
                return LARGEST_CHANGE
            squares += float(np.square(a).sum())
            difference += float(np.square(a - b).sum())
        largest = max(largest, float(np.sqrt(difference / squares)) if squares else float(difference > 0))
    return min(largest, LARGEST_CHANGE)


def measure_groups(
    options: Options, measure: Callable[[Sequence[str]], float], *, clock: Callable[[], float] = time.monotonic
) -> tuple[float | None, ...]:
    """`measure` for each group of the options, until their time is up; None for those that were left."""
    end_s = clock() + options.measure_s
    return tuple(measure(group) if clock() < end_s else None for group in options.groups)


def find_breaking(layers: Sequence[str], works: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """Layers without which it works, found by halving: each that breaks what works with all before it.

    So of several that break together it is the last one. `works` says whether it does if only these are quantized.
    """
    kept = list(layers)
    broken: list[str] = []
    working = 0
    while kept and not works(kept):
        breaking = len(kept)
        while breaking - working > 1:
            middle = (working + breaking) // 2
            if works(kept[:middle]):
                working = middle
            else:
                breaking = middle
        broken.append(kept.pop(breaking - 1))
    return tuple(broken)


def describe_kinds(operators: Sequence[str]) -> str:
    """`3 Conv, 1 Softmax`."""
    return ", ".join(f"{count} {operator}" for operator, count in Counter(operators).most_common())
