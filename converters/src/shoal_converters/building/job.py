"""Does what is asked for fit together? The recipe, the model and the data, read and checked before anything is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.device_profile import DeviceProfile

from shoal_converters.building.wanted import Wanted, list_wanted
from shoal_converters.datasets import check_disjoint, check_labelled, load_items
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadRecipe
from shoal_converters.evaluation import USUAL_ENGINES, check_items
from shoal_converters.forms import Signature
from shoal_converters.inspection.inspecting import read_facts
from shoal_converters.recipe import Data, Recipe
from shoal_converters.source_model import SourceModel, open_source
from shoal_converters.tasks import make_task
from shoal_converters.tasks.task import Task

Tell = Callable[[str], None]
"""Gets a line for each thing that is begun or done."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a person asked for on the command line."""

    recipe: Recipe
    recipe_folder: Path
    out: Path
    command: str
    interpreters: Mapping[str, str]
    """Python programs for extras that aren't installed in this one."""
    profiles: Sequence[DeviceProfile]
    """Of the boards that the recipe names."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """An order with all that its recipe names."""

    order: Order
    source: SourceModel
    task: Task
    pipeline: Pipeline
    wanted: Wanted
    calibration: Sequence[Item]
    """Empty where the recipe has none."""
    evaluation: Sequence[Item]

    @property
    def recipe(self) -> Recipe:
        """The order's."""
        return self.order.recipe


def open_job(order: Order) -> Job:
    """Read and check everything.

    Raises:
        BadRecipe, BadModel, BadData: what doesn't exist or doesn't fit.
    """
    recipe = order.recipe
    task = make_task(recipe.task, recipe.task_options)
    for which, operations in (("pre", recipe.pre), ("post", recipe.post)):
        if not operations:
            raise BadRecipe(
                f"recipe: {which} is empty: write the operations that the model was trained for, see docs/operations.md"
            )
    try:
        pipeline = Pipeline(pre=recipe.pre, post=recipe.post)
    except BadPipeline as error:
        raise BadRecipe(f"recipe: {error}") from None

    def load(data: Data, *, what: str) -> list[Item]:
        items = load_items(data, folder=order.recipe_folder, task=task, labels=recipe.labels)
        check_items(items, pipeline=pipeline, what=what)
        return items

    wanted = list_wanted(recipe.variants, order.profiles)
    source = open_source(recipe.source, folder=order.recipe_folder)
    evaluation = load(recipe.evaluation, what="evaluation set")
    check_labelled(evaluation, what="evaluation set")
    calibration = load(recipe.calibration, what="calibration set") if recipe.calibration else []
    check_disjoint(calibration, evaluation)
    return Job(
        order=order,
        source=source,
        task=task,
        pipeline=pipeline,
        wanted=wanted,
        calibration=calibration,
        evaluation=evaluation,
    )


def note_source(source: SourceModel) -> tuple[str, ...]:
    """What to know of the model before anything is made of it.

    Raises:
        BadModel: the file is broken.
    """
    if source.format not in USUAL_ENGINES:
        return ()
    facts = read_facts(Path(source.path))
    if not facts.precision.startswith("int"):
        return ()
    how = f" ({facts.how_quantized})" if facts.how_quantized else ""
    return (
        f"The model is quantized already: {facts.precision}{how}. The variants that are called fp32 hold it as it is, "
        "and the others are compared with these; for more, start from the model in float.",
    )


def check_inputs(job: Job, signature: Signature) -> None:
    """Make sure that pre-processing gives what the model takes.

    Raises:
        BadRecipe: another name, type or shape.
    """
    call = job.pipeline.prepare(job.evaluation[0].raw).calls[0]
    taken = {tensor.name: tensor for tensor in signature.inputs}
    if set(call) != set(taken):
        raise BadRecipe(
            f"pre-processing gives the inputs {sorted(call)}, but the model takes {sorted(taken)}: correct the names "
            "in the recipe's pre"
        )
    for name, array in call.items():
        tensor = taken[name]
        fits = len(array.shape) == len(tensor.shape) and all(
            length in (-1, found) for length, found in zip(tensor.shape, array.shape, strict=True)
        )
        if array.dtype.name != tensor.dtype or not fits:
            raise BadRecipe(
                f"pre-processing gives {array.dtype.name}{list(array.shape)} for the input {name!r}, but the model "
                f"takes {tensor.dtype}{list(tensor.shape)}: correct the recipe's pre"
            )
