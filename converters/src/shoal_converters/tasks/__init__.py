"""Which kinds of tasks are there? The table.

To add one: write its module, then name it here.
"""

from collections.abc import Mapping
from dataclasses import fields

import msgspec
from shoal_wire.encoding import Parameters

from shoal_converters.errors import BadRecipe
from shoal_converters.tasks.anomaly import Anomaly
from shoal_converters.tasks.classification import Classification
from shoal_converters.tasks.detection import Detection
from shoal_converters.tasks.embedding import Embedding
from shoal_converters.tasks.events import Events
from shoal_converters.tasks.faces import Faces
from shoal_converters.tasks.notes import Notes
from shoal_converters.tasks.regression import Regression
from shoal_converters.tasks.segmentation import Segmentation
from shoal_converters.tasks.task import Task
from shoal_converters.tasks.text import TextGeneration

TASKS: Mapping[str, type[Task]] = {
    kind.name: kind
    for kind in (
        Classification,
        Detection,
        Segmentation,
        Events,
        Embedding,
        Regression,
        Anomaly,
        TextGeneration,
        Faces,
        Notes,
    )
}

ANSWERED: Mapping[str, str] = {
    Classification.name: "classes",
    Detection.name: "objects",
    Segmentation.name: "mask",
    Events.name: "events",
    Embedding.name: "embedding",
    Regression.name: "values",
    Anomaly.name: "is_anomalous",
    TextGeneration.name: "tokens",
    Faces.name: "faces",
    Notes.name: "notes",
}
"""The field that tells an answer of a task from those of others. The last operation behind the model gives it."""


def make_task(name: str, options: Parameters) -> Task:
    """A task with a recipe's options.

    Raises:
        BadRecipe: no such task, an unknown option, or a value of another type or range.
    """
    kind = TASKS.get(name)
    if kind is None:
        raise BadRecipe(f"task {name!r}, expected one of {sorted(TASKS)}")
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(options) - known)
    if unknown:
        raise BadRecipe(f"task {name}: unknown option {unknown[0]!r}, expected {sorted(known) or 'none'}")
    try:
        return msgspec.convert(options, type=kind)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"task {name}: {error}") from None
