"""What does a quantizer see of a calibration set? The calls that pre-processing makes of it, in one .npz on disk."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_wire.manifest import Tensor

from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData

Array = NDArray[Any]
T = TypeVar("T")
Run = Callable[[Tensors], Tensors]
"""One call of the original model. Raises what its engine raises."""

MAX_CALLS = 512
MAX_BYTES = 1 << 30
MAX_FOLLOWED = 10_000
"""Calls of one item that depend on one another are followed so far."""
FREE = -1


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A calibration set as calls."""

    path: Path
    calls: int
    items: int
    """From so many items they are."""
    notes: tuple[str, ...]


def collect_calls(
    items: Sequence[Item],
    *,
    pipeline: Pipeline,
    inputs: Sequence[Tensor],
    path: Path,
    run: Run | None = None,
    max_calls: int = MAX_CALLS,
    max_bytes: int = MAX_BYTES,
) -> Collected:
    """Write calls as `<call>/<input>`, from every item about as many, evenly over each, until a bound is reached.

    `run` is needed where a call depends on the outputs of the one before. The same items give the same bytes. One item
    is in memory at a time.

    Raises:
        BadData: no item; one that pre-processing refuses, or whose calls aren't finite or have another type or shape
            than the signature; or all calls of the set are the same.
    """
    if not items:
        raise BadData("calibration set: it has no item, expected some hundred")
    spread = _Spread()
    size_bytes = calls = used = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for number, call in _spread_over(items, pipeline=pipeline, run=run, most=max_calls):
            _check(call, inputs=inputs, what=f"calibration set: {items[number].name}")
            size_bytes += sum(array.nbytes for array in call.values())
            if calls and size_bytes > max_bytes:
                break
            spread.add(call)
            _write(archive, call, number=calls)
            calls, used = calls + 1, number + 1
    notes = _describe(spread, used=used, items=len(items), calls=calls)
    return Collected(path=path, calls=calls, items=used, notes=notes)


class _Spread:
    """Which inputs ever change."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[float, float]] = {}

    def add(self, call: Tensors) -> None:
        for name, array in call.items():
            if array.dtype.kind == "f" and array.size:
                low, high = self._ends.get(name, (np.inf, -np.inf))
                self._ends[name] = min(low, float(array.min())), max(high, float(array.max()))

    @property
    def constant(self) -> Mapping[str, float]:
        """Float inputs that have one value throughout."""
        return {name: low for name, (low, high) in self._ends.items() if low == high}

    @property
    def is_constant(self) -> bool:
        """Whether there are float inputs, and all are so."""
        return bool(self._ends) and len(self.constant) == len(self._ends)


def choose_calls(item: Item, *, pipeline: Pipeline, most: int, run: Run | None) -> list[Tensors]:
    """At most so many calls of an item, evenly over it. `run` is needed where a call depends on the one before.

    Raises:
        OperationError: pre-processing refuses the item.
        BadData: `run` is needed and missing.
    """
    prepared = pipeline.prepare(item.raw)
    if prepared.follow is None:
        return spread(prepared.calls, most)
    if run is None:
        raise BadData(
            f"calibration set: {item.name}: calls of this model depend on outputs of those before, and its "
            "original can't be run here; so it can't be calibrated: leave its INT8 variants out"
        )
    return spread(list(_follow(prepared, run)), most)


def spread(values: Sequence[T], most: int) -> list[T]:
    """At most so many, at even distances; the first is always among them."""
    count = min(len(values), most)
    return [values[place * len(values) // count] for place in range(count)]


def _spread_over(
    items: Sequence[Item], *, pipeline: Pipeline, run: Run | None, most: int
) -> Iterator[tuple[int, Tensors]]:
    """At most so many calls, each with the number of its item."""
    left = most
    for number, item in enumerate(items):
        share = -(-left // (len(items) - number))
        if share:
            try:
                chosen = choose_calls(item, pipeline=pipeline, most=share, run=run)
            except OperationError as error:
                raise BadData(f"calibration set: {item.name}: {error}") from None
            left -= len(chosen)
            yield from ((number, call) for call in chosen)


def _follow(prepared: Prepared[Any], run: Run) -> Iterator[Tensors]:
    call: Tensors | None = prepared.calls[0]
    assert prepared.follow is not None
    for number in range(MAX_FOLLOWED):
        if call is None:
            return
        yield call
        call = prepared.follow(number, run(call))


def _check(call: Tensors, *, inputs: Sequence[Tensor], what: str) -> None:
    wanted = {tensor.name: tensor for tensor in inputs}
    if set(call) != set(wanted):
        raise BadData(f"{what}: expected the inputs {sorted(wanted)}, found {sorted(call)}")
    for name, array in call.items():
        tensor = wanted[name]
        fits = len(array.shape) == len(tensor.shape) and all(
            length in (FREE, found) for length, found in zip(tensor.shape, array.shape, strict=True)
        )
        if array.dtype.name != tensor.dtype or not fits:
            found = f"{array.dtype.name}{list(array.shape)}"
            raise BadData(f"{what}: {name}: expected {tensor.dtype}{list(tensor.shape)}, found {found}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadData(f"{what}: {name} holds NaN or infinite values after pre-processing")


def _write(archive: zipfile.ZipFile, call: Tensors, *, number: int) -> None:
    for name, array in sorted(call.items()):
        entry = zipfile.ZipInfo(f"{number}/{name}.npy")  # its time is that of the ZIP format's beginning
        with archive.open(entry, "w", force_zip64=True) as out:
            np.lib.format.write_array(out, np.asarray(array, order="C"), allow_pickle=False)


def _describe(spread: _Spread, *, used: int, items: int, calls: int) -> tuple[str, ...]:
    if spread.is_constant:
        ends = ", ".join(f"{name} is {value:g}" for name, value in spread.constant.items())
        raise BadData(f"calibration set: all of its calls are the same ({ends}): no range can be measured from it")
    notes = [f"calibration: {name} is {value:g} in all calls" for name, value in spread.constant.items()]
    if used < items:
        notes.append(f"calibration: {calls} calls of the first {used} of {items} items are enough or all that fits")
    return tuple(notes)
