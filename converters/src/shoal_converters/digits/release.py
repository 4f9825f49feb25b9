"""How do the example's two releases come to be? A trained network, sets of pictures, and a recipe for each.

All of that is left in a folder, so that `shoal-convert build` makes the same releases again.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.manifest import Operation

from shoal_converters.building.build import build
from shoal_converters.building.job import Order, Tell
from shoal_converters.datasets.arrays import encode_png
from shoal_converters.digits.network import FILTERS, train
from shoal_converters.digits.network_file import INPUT, OUTPUT
from shoal_converters.digits.pictures import LABELS, Pictures, load_sets
from shoal_converters.errors import BuildFailed
from shoal_converters.importing.recipe_toml import format_recipe
from shoal_converters.recipe import Budget, Data, Recipe, Source, load_recipe
from shoal_converters.report.results import Report

NAME = "digits"
MATERIAL = "material"
NETWORK, CALIBRATION, EVALUATION = "digits.onnx", "calibration.npz", "evaluation.npz"
CREATED_AT = "2026-11-30"
SIDE = 8
"""Pixels, as the pictures have."""
JUDGED = 300
"""Held-out pictures by which the variants are judged."""

PRE = (
    Operation("image.decode"),
    Operation("image.fit", {"width": SIDE, "height": SIDE, "how": "stretch", "method": "bilinear"}),
    Operation(
        "image.feed", {"input": INPUT, "colours": "grey", "layout": "nchw", "dtype": "float32", "scale": 1 / 255}
    ),
)
POST = (
    Operation("scores.read", {"output": OUTPUT, "activation": "softmax"}),
    Operation("classes.top", {"labels": list(LABELS), "count": 3}),
)
VARIANTS = {1: ("onnx-fp32",), 2: ("onnx-fp32", "onnx-int8")}
"""By version."""
TIMING_S = {1: 1.0, 2: 15.0}
"""Version 1 has nothing to be compared with. Version 2 needs five rounds at least to say what is faster."""


@dataclass(frozen=True, kw_only=True)
class BuiltRelease:
    """The written release folder, and its report."""

    folder: Path
    report: Report


def build_releases(
    out: Path, *, tell: Tell, on_built: Callable[[BuiltRelease], None], filters: Sequence[int] = FILTERS
) -> None:
    """Train the network, then make `release-1` and `release-2` under `out`, replacing what is there.

    `filters`: of each of the network's layers.

    Raises:
        ConverterError: see its branches.
    """
    material = out / MATERIAL
    write_material(material, tell=tell, filters=filters)
    for version in VARIANTS:
        recipe, folder = material / name_recipe(version), out / f"release-{version}"
        order = Order(
            recipe=load_recipe(recipe),
            recipe_folder=material,
            out=folder,
            command=shlex.join(["shoal-convert", "build", str(recipe), "--out", str(folder)]),
            interpreters={},
            profiles=(),
        )
        on_built(BuiltRelease(folder=folder, report=build(order, tell=tell)))


def write_material(folder: Path, *, tell: Tell, filters: Sequence[int] = FILTERS) -> None:
    """Train the network, and write it with the sets and a recipe for each version.

    Raises:
        BuildFailed: the folder can't be written.
        ToolMissing: onnx isn't installed.
    """
    sets = load_sets()
    tell(f"training on {len(sets.training.digits)} pictures")
    network = train(prepare(sets.training), sets.training.digits, filters=filters).to_onnx(side=SIDE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NETWORK).write_bytes(network)
        _write_set(sets.calibration, folder / CALIBRATION)
        _write_set(sets.held_out, folder / EVALUATION)
        for version in VARIANTS:
            (folder / name_recipe(version)).write_text(format_recipe(make_recipe(version)), encoding="utf-8")
    except OSError as error:
        raise BuildFailed(f"{folder}: {error}") from error


def make_recipe(version: int) -> Recipe:
    """What is asked of the workbench; paths are relative to the recipe."""
    return Recipe(
        name=NAME,
        version=version,
        created_at=CREATED_AT,
        licence="CC BY 4.0 (pictures: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998)",
        provenance="Random filters and a logistic regression, trained by python -m shoal_converters.digits.",
        task="classification",
        labels=LABELS,
        source=Source(path=NETWORK, format="onnx"),
        pre=PRE,
        post=POST,
        calibration=Data(path=CALIBRATION),
        evaluation=Data(path=EVALUATION, limit=JUDGED),
        variants=VARIANTS[version],
        budget=Budget(timing_s=TIMING_S[version]),
    )


def name_recipe(version: int) -> str:
    """Its file."""
    return f"release-{version}.toml"


def prepare(pictures: Pictures) -> NDArray[np.float32]:
    """What the network gets on a board for each picture: float32[n, 1, SIDE, SIDE]."""
    pipeline = Pipeline(pre=PRE, post=POST)
    return np.concatenate([pipeline.prepare(encode_png(pixels)).calls[0][INPUT] for pixels in pictures.pixels])


def _write_set(pictures: Pictures, path: Path) -> None:
    np.savez(path, x=pictures.pixels, y=np.array([LABELS[digit] for digit in pictures.digits]))
