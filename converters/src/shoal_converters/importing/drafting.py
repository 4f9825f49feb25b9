"""What would a first recipe for a model be, for a person to correct?"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.inspection.facts import TensorFacts
from shoal_converters.inspection.formats import detect_format
from shoal_converters.inspection.inspecting import read_facts
from shoal_converters.recipe import Data, Recipe, Source
from shoal_converters.tasks import make_task

UNKNOWN_LICENCE = "unknown"
EVALUATION, CALIBRATION = "evaluation", "calibration"
MAX_LABEL, MAX_TEXT, MAX_NAME = 200, 4000, 63


class Draft(NamedTuple):
    """A recipe, and what is left to fill in."""

    recipe: Recipe
    left: tuple[str, ...]


class Known(NamedTuple):
    """What is known of a model beside its file."""

    licence: str = ""
    provenance: str = ""
    labels: tuple[str, ...] = ()
    make_pre: Callable[[Tensor], tuple[Tensor, tuple[Operation, ...]]] | None = None
    """Gives the model's first input with the lengths that its free axes get, and pre-processing for that. Raises
    BadRecipe where the description of it can't be followed."""
    inputs: tuple[Tensor, ...] = ()
    """Where the file doesn't say."""
    outputs: tuple[Tensor, ...] = ()


def draft_recipe(
    model: Path | str, *, task: str, folder: Path, name: str, version: int, created_at: str, known: Known | None = None
) -> Draft:
    """A recipe in `folder` for a model's file or folder, or for `module:function`.

    What the file says of inputs and outputs goes before what is `known` of them.

    Raises:
        BadRecipe: no such task.
        BadModel: the file is broken or of no format that can be converted.
    """
    known = known or Known()
    is_code = isinstance(model, str)
    model_format = "torch-code" if is_code else detect_format(Path(model))
    inputs, outputs = (known.inputs, known.outputs) if is_code else _read_signature(Path(model), known)
    left: list[str] = []
    made: tuple[Operation, ...] = ()
    is_told = is_code or model_format in ("torchscript", "sklearn")
    if known.make_pre is not None and inputs:
        try:
            first, made = known.make_pre(inputs[0])
            is_told = is_told or first != inputs[0]
            inputs = (first, *inputs[1:])
            left.append("pre: as the model's own files say")
        except BadRecipe as error:
            left.append(f"pre: {error}; write it yourself, see docs/operations.md")
    pre, post = _propose(task, inputs, outputs, known, left=left)
    source = Source(
        path=str(model) if is_code else _relative(Path(model), folder),
        format=model_format,
        inputs=inputs if is_told else (),
        outputs=tuple(tensor.name for tensor in outputs) if is_told else (),
    )
    recipe = Recipe(
        name=make_name(name),
        version=version,
        created_at=created_at,
        licence=(known.licence or UNKNOWN_LICENCE)[:MAX_TEXT],
        provenance=known.provenance[:MAX_TEXT],
        task=task,
        labels=tuple(label[:MAX_LABEL] for label in known.labels),
        source=source,
        pre=pre if known.make_pre is None else made,
        post=post,
        calibration=Data(path=CALIBRATION),
        evaluation=Data(path=EVALUATION),
    )
    return Draft(recipe, (*_list_missing(recipe, is_told=is_told), *left))


def make_name(text: str) -> str:
    """A name for a release out of any text: lower case, digits and hyphens."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_NAME].strip("-")
    return name or "model"


def to_tensors(facts: Sequence[TensorFacts]) -> tuple[Tensor, ...]:
    """A signature as a manifest has it; what is quantized in the file is float32 there.

    Raises:
        BadModel: a tensor without a known number of axes.
    """
    tensors = []
    for one in facts:
        if one.shape is None:
            raise BadModel(f"tensor {one.name!r}: the file doesn't say how many axes it has")
        tensors.append(Tensor(one.name[:MAX_LABEL], "float32" if one.scale else one.dtype, one.shape))
    return tuple(tensors)


def _read_signature(model: Path, known: Known) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    facts = read_facts(model)
    try:
        return to_tensors(facts.inputs) or known.inputs, to_tensors(facts.outputs) or known.outputs
    except BadModel:
        return known.inputs, known.outputs


def _propose(
    task: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], known: Known, *, left: list[str]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Operations before and behind the model; adds to what is left to do."""
    maker = make_task(task, {})
    untold = [which for which, tensors in (("inputs", inputs), ("outputs", outputs)) if not tensors]
    if untold:
        missing = " and ".join(f"source.{which}" for which in untold)
        left.append(f"pre and post: the file doesn't say what the model takes and gives: write {missing} first")
        return (), ()
    try:
        proposal = maker.propose(inputs, outputs, labels=known.labels)
    except BadRecipe as error:
        left.append(f"pre and post: the task {task} has no proposal for this signature ({error})")
        return (), ()
    guess = "post: a guess" if known.make_pre is not None else "pre and post: guesses"
    left.append(f"{guess} by the signature: compare with how the model was trained")
    return proposal.pre, proposal.post


def _list_missing(recipe: Recipe, *, is_told: bool) -> list[str]:
    missing = [f"evaluation: put items with their labels into the folder {EVALUATION}, or name your own"]
    missing.append(f"calibration: put other items, without labels, into the folder {CALIBRATION}; needed for INT8")
    if recipe.licence == UNKNOWN_LICENCE:
        missing.append("licence: nothing says under which licence the model may be used")
    if not recipe.labels:
        missing.append("labels: in the order of the model's outputs, if the task has labels")
    if is_told and not recipe.source.inputs:
        missing.append("source.inputs and source.outputs: the file doesn't say what it takes and gives")
    return missing


def _relative(model: Path, folder: Path) -> str:
    try:
        return str(model.resolve().relative_to(folder.resolve()))
    except ValueError:
        return str(model.resolve())
