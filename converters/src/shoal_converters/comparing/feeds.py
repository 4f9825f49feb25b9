"""On which inputs are two models compared, where no release has any? Random ones, the same every time, or one's own."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor
from shoal_worker.tensors import DTYPES

from shoal_converters.errors import BadData

Array = NDArray[Any]
Feeds = dict[str, Array]

MAX_FEED_BYTES = 1 << 30
"""Of all arrays of one file."""
MAX_FILES = 1000
MAX_VALUES = 100_000_000
"""Of one random input."""
FEW = 2
"""Random whole numbers lie below: most are tokens or masks, which must stay within a table."""


def make_feeds(
    inputs: Sequence[Tensor], *, count: int, free_length: int, ranges: Mapping[str, tuple[float, float]]
) -> list[Feeds]:
    """Random inputs: floats of mean 0 and deviation 1, bytes of any value, 0 and 1 for other whole numbers.

    Inputs that have one of `ranges` are spread evenly over it. Axes of any length have `free_length`, but for the
    first, which has 1. The signature is the seed.

    Raises:
        BadData: an input of a type that can't be made up, or too large.
    """
    seed = hashlib.sha256(msgspec.json.encode([inputs, count, free_length])).digest()
    random = np.random.default_rng(list(seed))
    return [
        {
            tensor.name: _draw(random, tensor, free_length=free_length, limits=ranges.get(tensor.name))
            for tensor in inputs
        }
        for _ in range(count)
    ]


def load_feeds(path: Path, inputs: Sequence[Tensor]) -> list[Feeds]:
    """Inputs of a NumPy .npz file, or of all in a folder by name: arrays `<input>`, or `<call>/<input>` of several.

    Raises:
        BadData: no such file, broken or too large, or arrays that aren't those of the inputs.
    """
    files = sorted(path.glob("*.npz"))[: MAX_FILES + 1] if path.is_dir() else [path]
    if not files or len(files) > MAX_FILES:
        raise BadData(f"{path}: expected 1 to {MAX_FILES} .npz files, found {len(files) or 'none'}")
    return [feeds for file in files for feeds in _load(file, inputs)]


def _draw(
    random: np.random.Generator, tensor: Tensor, *, free_length: int, limits: tuple[float, float] | None
) -> Array:
    shape = tuple(
        length if length >= 0 else 1 if number == 0 else free_length for number, length in enumerate(tensor.shape)
    )
    if tensor.dtype not in DTYPES:
        raise BadData(f"input {tensor.name!r} is {tensor.dtype}, expected one of {', '.join(DTYPES)}")
    if np.prod(shape, dtype=np.float64) > MAX_VALUES:
        raise BadData(f"input {tensor.name!r} has the shape {list(shape)}, expected at most {MAX_VALUES} values")
    dtype = DTYPES[tensor.dtype]
    if dtype.kind == "f" and limits is not None:
        return random.uniform(*limits, shape).astype(dtype)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind != "b":
        span = np.iinfo(dtype)
        return random.integers(span.min, span.max + 1, shape).astype(dtype)
    return random.integers(0, FEW, shape).astype(dtype)


def _load(file: Path, inputs: Sequence[Tensor]) -> list[Feeds]:
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > MAX_FEED_BYTES:
            raise BadData(f"{file}: {size} bytes of arrays, expected at most {MAX_FEED_BYTES}")
        with np.load(file, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise BadData(f"{file}: not a NumPy .npz file that can be read ({error})") from None
    calls: dict[str, Feeds] = {}
    names = {tensor.name for tensor in inputs}
    for name, array in arrays.items():
        call, _, rest = name.partition("/")
        number, key = ("", name) if name in names or not call.isdigit() else (call, rest)
        calls.setdefault(number, {})[key] = array
    ordered = [calls[number] for number in sorted(calls, key=lambda number: int(number or 0))]
    return [check_feeds(feeds, inputs, what=str(file)) for feeds in ordered]


def check_feeds(feeds: Feeds, inputs: Sequence[Tensor], *, what: str) -> Feeds:
    """Make sure that arrays are those of the inputs; gives them back. `what` they are, for messages.

    Raises:
        BadData: other names, types or shapes.
    """
    expected = {tensor.name: tensor for tensor in inputs}
    if feeds.keys() != expected.keys():
        raise BadData(f"{what}: expected the arrays {sorted(expected)}, found {sorted(feeds)}")
    for name, array in feeds.items():
        tensor = expected[name]
        fits = array.ndim == len(tensor.shape) and all(
            length in (-1, found) for length, found in zip(tensor.shape, array.shape, strict=True)
        )
        if not fits or array.dtype.name != tensor.dtype:
            wanted, found = f"{tensor.dtype} {list(tensor.shape)}", f"{array.dtype.name} {list(array.shape)}"
            raise BadData(f"{what}: expected {name!r} as {wanted}, found {found}")
    return feeds
