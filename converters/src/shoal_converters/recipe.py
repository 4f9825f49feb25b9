"""What does a publisher ask for? The recipe: one TOML file beside the model, kept with it in version control.

`shoal-convert new` writes a first one. It says everything that a release depends on, so that the same recipe, files
and versions of the tools give the same manifest.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Identifier, Label, ModelName, Parameters, Text, Version
from shoal_wire.errors import Malformed
from shoal_wire.manifest import Operation, Tensor
from shoal_wire.toml import read_toml

from shoal_converters.errors import BadRecipe

MAX_RECIPE_BYTES = 1 << 20

Count = Annotated[int, Meta(ge=1, le=10_000_000)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A misspelt field is an error here: nobody would notice that it was ignored."""


class Source(Strict, frozen=True, kw_only=True):
    """The trained model."""

    path: str
    """A file or folder, relative to the recipe, or `module:function` of Python code that gives the model."""
    format: Identifier = ""
    """See `shoal_converters.paths.sources`; empty: found out from the file."""
    inputs: tuple[Tensor, ...] = ()
    """Signature, in the order of the arguments; needed where the file doesn't say (PyTorch)."""
    outputs: tuple[Label, ...] = ()
    """Names for the outputs, in their order; empty: as the file names them."""


class Data(Strict, frozen=True, kw_only=True):
    """Items, with the answers that are right where it is the evaluation set."""

    path: str
    """A file or folder, relative to the recipe, or `module:function`."""
    kind: Identifier = ""
    """See `shoal_converters.datasets.READERS`; empty: found out from the path."""
    limit: Count | None = None
    """At most so many items, drawn by `seed` so that labels keep their shares."""
    seed: int = 0
    options: Parameters = {}
    """Of the reader: which column holds the label, and so on."""
    labels_are: Literal["either", "names", "places"] = "either"
    """What the set calls labels by: their names, or their places in the recipe's list, from 0. `either`: found out from
    the set, all of whose labels must be one of them."""


class Budget(Strict, frozen=True, kw_only=True):
    """What a variant may cost."""

    max_drop: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """Of the task's metric, against the original."""
    max_source_difference: Annotated[float, Meta(ge=0)] = 2e-3
    """Of outputs of a conversion in full precision from those of the source in its own framework, relative to their
    size, where no engine runs the source: what rounding in float32 explains, see `building.source_check`."""
    tuning_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """For the search of a quantization that keeps it, for each variant."""
    timing_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """For measuring speeds, all variants together."""


class Recipe(Strict, frozen=True, kw_only=True):
    """All of it."""

    name: ModelName
    version: Version
    created_at: Label
    """ISO 8601; `shoal-convert new` writes the day. The time of a build would make every manifest another."""
    licence: Text
    provenance: Text = ""
    task: Identifier
    """See `shoal_converters.tasks.TASKS`."""
    task_options: Parameters = {}
    """Of the task: the frame of an F1 by frame, and so on."""
    labels: tuple[Label, ...] = ()
    source: Source
    pre: tuple[Operation, ...]
    post: tuple[Operation, ...]
    calibration: Data | None = None
    """Needed for INT8 activations. Never the evaluation set: a variant would be judged by what it was fitted to."""
    evaluation: Data
    variants: tuple[Identifier, ...] = ()
    """Names out of `shoal_converters.paths.VARIANTS`; empty: all that can be made here."""
    targets: tuple[Identifier, ...] = ()
    """Device profiles."""
    budget: Budget = Budget()
    golden_cases: Annotated[int, Meta(ge=1, le=64)] = 8


def load_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        BadRecipe: no such file, not TOML, an unknown or missing field, or a value of another type or range.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadRecipe(f"{path}: {error.strerror or error}") from None
    if len(raw) > MAX_RECIPE_BYTES:
        raise BadRecipe(f"{path}: {len(raw)} bytes, expected at most {MAX_RECIPE_BYTES}")
    try:
        return msgspec.convert(read_toml(raw, what=str(path)), Recipe)
    except Malformed as error:
        raise BadRecipe(str(error)) from None
    except msgspec.ValidationError as error:
        raise BadRecipe(f"{path}: {error}") from None
