"""What does a publisher's own function say that the items are?

`module:function`, with the recipe's folder first on the module path. Called with the options as keyword arguments, it
gives `(name, raw bytes, label)` one after the other; the label may be None in a set without labels.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from shoal_converters.datasets.found import Asked, Found, Loaded
from shoal_converters.errors import BadData
from shoal_converters.tasks.labels import shorten


def find_by_code(asked: Asked) -> list[Found]:
    """Run the function and take what it gives.

    Raises:
        BadData: no such module or function, it fails, or it gives something else.
    """
    module, _, function = asked.path.partition(":")
    try:
        with _on_module_path(asked.folder):
            given: Iterable[object] = getattr(importlib.import_module(module), function)(**asked.options)
            return [_parse(one, asked=asked, place=place) for place, one in enumerate(given)]
    except BadData:
        raise
    except Exception as error:  # whatever it raises
        raise BadData(f"{asked.path}: {type(error).__name__}: {error}") from error


def _parse(given: object, *, asked: Asked, place: int) -> Found:
    match given:
        case (str() as name, bytes() as raw, label) if name:
            stratum = str(label) if isinstance(label, str | int) else ""
            suffix = PurePosixPath(name).suffix
            return Found(name=name, suffix=suffix, stratum=stratum, load=partial(Loaded, raw, label))
    raise BadData(f"{asked.path}: item {place} is {shorten(given)}, expected a tuple (name, raw bytes, label)")


@contextlib.contextmanager
def _on_module_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
