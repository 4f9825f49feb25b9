"""How do the arrays of an .npz file become files as a board would get them?

`x` holds the items along its first axis, `y` their labels (absent: a set without). By what `x` is:

- uint8[n, height, width] or uint8[n, height, width, 3]: PNG, grey or red, green, blue;
- numbers[n, samples] with the option `sample_rate_hz`: WAV of float32 samples in [-1, 1];
- numbers[n, features]: CSV of one row;
- numbers[n, times, channels]: CSV of a row for each time.

`y` is [n] (numbers or text), [n, values], or a mask for each item, uint8[n, height, width].
"""

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shoal_converters.datasets.found import Asked, Found, Loaded, Options, parse_options
from shoal_converters.datasets.rows import write_rows
from shoal_converters.errors import BadData

_Array = NDArray[Any]
_WAVE_FLOAT = 3


class ArrayOptions(Options, frozen=True, kw_only=True):
    """Of a set of arrays."""

    sample_rate_hz: int = 0
    """Of sounds; 0: these are none."""
    columns: tuple[str, ...] = ()
    """Names of features or channels; empty: x0, x1, …"""


class _Form(NamedTuple):
    """What an item becomes."""

    suffix: str
    write: Callable[[_Array], bytes]


def find_arrays(asked: Asked) -> list[Found]:
    """Items of an .npz file, named by their place from 0.

    Raises:
        BadData: not an .npz file, no `x`, arrays of other shapes or types, unequal lengths, or a number that isn't
            finite.
        BadRecipe: an unknown option.
    """
    options = parse_options(asked, ArrayOptions)
    path = asked.place
    arrays = _read(path)
    if "x" not in arrays:
        raise BadData(f"{path}: no array 'x', found {sorted(arrays)}")
    x, y = arrays["x"], arrays.get("y")
    form = _choose_form(x, options=options, path=path)
    if y is not None and (y.ndim == 0 or len(y) != len(x)):
        raise BadData(f"{path}: y has the shape {list(y.shape)}, expected {len(x)} labels as x has items")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = int(np.argwhere(~np.isfinite(array))[0][0])
            raise BadData(f"{path}: {name}[{place}] holds a value that is infinite or not a number")
    width = len(str(len(x) - 1))
    found = []
    for place, item in enumerate(x):
        label = None if y is None else _parse_label(y[place])
        found.append(
            Found(
                name=f"{place:0{width}d}",
                suffix=form.suffix,
                stratum=str(label) if isinstance(label, str | int) else "",
                load=partial(_load, item, write=form.write, label=label),
            )
        )
    return found


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of uint8[height, width] (grey) or uint8[height, width, 3] (red, green, blue)."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def encode_wav(samples: NDArray[np.float32], *, sample_rate_hz: int) -> bytes:
    """A WAV file of float32[n], as Microsoft's "Multiple channel audio data and WAVE files" (2001) has it."""
    data = samples.astype("<f4").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, _WAVE_FLOAT, 1, sample_rate_hz, 4 * sample_rate_hz, 4, 32)
    return b"RIFF" + struct.pack("<I", 4 + len(form) + 8 + len(data)) + b"WAVE" + form + _chunk(b"data", data)


def encode_csv(values: _Array, *, columns: Sequence[str]) -> bytes:
    """A CSV file of numbers[rows, columns], each with as many digits as tell it from its neighbours of its type."""
    return write_rows(columns, [[str(value) for value in row] for row in values])


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data


def _read(path: Path) -> Mapping[str, _Array]:
    try:
        with path.open("rb") as opened:
            loaded = np.load(opened, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise BadData(f"{path}: a single array, expected an .npz file with x and y")
            return {name: loaded[name] for name in loaded.files}
    except BadData:
        raise
    except Exception as error:  # OSError, ValueError, BadZipFile, EOFError, …
        raise BadData(f"{path}: can't be read as .npz ({type(error).__name__}: {error})") from None


def _choose_form(x: _Array, *, options: ArrayOptions, path: Path) -> _Form:
    if x.ndim == 0 or not len(x):
        raise BadData(f"{path}: x is empty")
    if options.sample_rate_hz:
        if x.ndim != 2 or x.dtype.kind != "f":
            raise BadData(f"{path}: x is {_say(x)}, expected float[n, samples] for sounds")
        if np.abs(x).max() > 1:
            raise BadData(f"{path}: x goes up to {np.abs(x).max():g}, expected samples in [-1, 1]")
        return _Form(".wav", partial(encode_wav, sample_rate_hz=options.sample_rate_hz))
    if x.dtype == np.uint8 and (x.ndim == 3 or (x.ndim == 4 and x.shape[3] == 3)):
        return _Form(".png", encode_png)
    if x.ndim in (2, 3) and x.dtype.kind in "fiu":
        columns = options.columns or tuple(f"x{place}" for place in range(x.shape[-1]))
        if len(columns) != x.shape[-1]:
            raise BadData(f"{path}: x is {_say(x)}, expected a last axis of {len(columns)} as there are columns named")
        return _Form(".csv", lambda item: encode_csv(np.atleast_2d(item), columns=columns))
    raise BadData(
        f"{path}: x is {_say(x)}, expected uint8[n, height, width] or uint8[n, height, width, 3] for pictures, "
        "numbers[n, features] or numbers[n, times, channels] for tables"
    )


def _say(array: _Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _parse_label(label: Any) -> object:
    """A Python object; masks stay arrays."""
    return label if isinstance(label, np.ndarray) and label.ndim == 2 else label.tolist()


def _load(item: _Array, *, write: Callable[[_Array], bytes], label: object) -> Loaded:
    return Loaded(write(item), label)
