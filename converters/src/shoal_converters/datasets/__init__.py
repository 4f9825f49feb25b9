"""Which kinds of data sets are read, and does a set hold up? The table, and what is asked of every set.

To add a kind: write a reader that finds items, then name it here.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from shoal_converters.datasets import arrays, code, pictures, sounds, tables, texts
from shoal_converters.datasets.drawing import draw
from shoal_converters.datasets.found import Asked, Found, name_some
from shoal_converters.datasets.items import Item
from shoal_converters.datasets.label_readings import ReadLabel, choose_reading, read_label
from shoal_converters.datasets.labelled_files import LABELS
from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.recipe import Data
from shoal_converters.tasks.task import Task

Reader = Callable[[Asked], list[Found]]
"""Gives what is there, in an order that depends on nothing but the set. Raises BadData, BadRecipe."""

READERS: Mapping[str, Reader] = {
    "pictures": pictures.find_pictures,
    "sounds": sounds.find_sounds,
    "csv": tables.find_rows,
    "sequences": tables.find_sequences,
    "npz": arrays.find_arrays,
    "text": texts.find_texts,
    "code": code.find_by_code,
}

_KINDS_OF_FILES = {".csv": "csv", ".npz": "npz", ".jsonl": "text"}
_KINDS_OF_FOLDERS = dict.fromkeys(pictures.SUFFIXES, "pictures") | {".wav": "sounds", ".csv": "sequences"}
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def load_items(data: Data, *, folder: Path, task: Task, labels: Sequence[str]) -> list[Item]:
    """Read a set; `folder` is the recipe's, `labels` those that it lists.

    Items have the order of their names or rows. Their expected answers are empty if the set says nothing of any.

    Raises:
        BadData: empty, an unknown label, labels that can be names and places alike, labels for some only, a label
            without items, an unreadable or missing file, a value that isn't a finite number, a wrong shape. The message
            names the item.
        BadRecipe: an unknown kind or option.
    """
    asked = Asked(path=data.path, folder=folder, options=data.options, task=task.name)
    kind = data.kind or find_kind(asked)
    if kind not in READERS:
        raise BadRecipe(f"data set {data.path}: unknown kind {kind!r}, expected one of {sorted(READERS)}")
    found = READERS[kind](asked)
    if not found:
        raise BadData(f"data set {data.path}: empty")
    return _load_all(draw(found, limit=data.limit, seed=data.seed), data=data, task=task, labels=labels)


def find_kind(asked: Asked) -> str:
    """Kind of a set by its path, and by the suffixes of its files where that is a folder.

    A CSV file beside a picture or a sound is no sequence: it says what is on it.

    Raises:
        BadData: there is nothing, or nothing known.
    """
    place = asked.place
    if place.is_dir():
        present = {path.suffix.lower() for path in place.rglob("*") if path.name != LABELS and path.is_file()}
        for suffix, kind in _KINDS_OF_FOLDERS.items():
            if suffix in present:
                return kind
        raise BadData(f"{place}: no file that ends in one of {list(_KINDS_OF_FOLDERS)}")
    if place.suffix.lower() in _KINDS_OF_FILES and place.is_file():
        return _KINDS_OF_FILES[place.suffix.lower()]
    if _CODE.match(asked.path) and not place.exists():
        return "code"
    if not place.exists():
        raise BadData(f"{place}: no such file or folder")
    raise BadData(f"{place}: expected a folder, module:function, or a file in {sorted(_KINDS_OF_FILES)}")


def check_labelled(items: Sequence[Item], *, what: str) -> None:
    """Make sure that a set says what is right.

    Raises:
        BadData: it has no labels.
    """
    if not any(item.expected for item in items):
        raise BadData(f"{what}: no labels, so there is nothing to measure against")


def check_disjoint(calibration: Sequence[Item], evaluation: Sequence[Item]) -> None:
    """Make sure that a model isn't judged by what it was fitted to.

    Raises:
        BadData: a file has the same bytes (SHA-256) as one of the other set.
    """
    fitted = {hashlib.sha256(item.raw).digest(): item.name for item in calibration}
    pairs = [(fitted.get(hashlib.sha256(item.raw).digest()), item.name) for item in evaluation]
    common = [f"{fit!r} is {judged!r}" for fit, judged in pairs if fit is not None]
    if common:
        raise BadData(
            f"calibration and evaluation set have {len(common)} items in common: {name_some(common)}; take them out of "
            "one"
        )


def _load_all(found: Sequence[Found], *, data: Data, task: Task, labels: Sequence[str]) -> list[Item]:
    what = f"data set {data.path}"
    items: list[Item] = []
    said: dict[int, ReadLabel] = {}
    for place, one in enumerate(found):
        loaded = one.load()
        items.append(Item(name=one.name, raw=loaded.raw, suffix=one.suffix))
        if loaded.label is not None:
            said[place] = read_label(loaded.label, item=one.name, task=task, labels=labels, labels_are=data.labels_are)
    try:
        reading = choose_reading(list(said.values()), task=task, labels_are=data.labels_are)
    except BadData as error:
        raise BadData(f"{what}: {error}") from None
    unlabelled = [item.name for place, item in enumerate(items) if place not in said]
    if 0 < len(unlabelled) < len(items):
        raise BadData(f"{what}: no label for {len(unlabelled)} of {len(items)} items: {name_some(unlabelled)}")
    return [
        replace(item, expected=said[place].answers[reading]) if place in said else item
        for place, item in enumerate(items)
    ]
