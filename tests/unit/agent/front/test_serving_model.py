"""How many calls of an item are given to the model at once, and which run of it is the first?"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from shoal_agent.front.model_workers import ModelWorkers, Recipe
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import Array, Ran, WorkerOptions


class FakePrepared:
    """Five calls, of the numbers 0 to 4."""

    calls = tuple({"x": np.array([[float(number)]])} for number in range(5))
    context = None


class FakePipeline:
    """An answer is what the model gave for each call."""

    def prepare(self, raw: bytes) -> FakePrepared:
        return FakePrepared()

    def finish(self, outputs: list[dict[str, Array]], context: None) -> dict[str, Any]:
        return {"doubled": [float(output["y"][0, 0]) for output in outputs]}

    def describe(self, answer: dict[str, Any]) -> str:
        return ""


class FakeWorkers:
    """Doubles numbers, and remembers of each run its rows, its deadline and whether it was an item's first."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.runs: list[tuple[int, float, bool]] = []

    def wait_ready(self) -> None:
        """It always is."""

    def run(self, feeds: Mapping[str, Array], *, deadline_s: float, item_sha256: str, is_first: bool) -> Ran:
        self.runs.append((len(feeds["x"]), deadline_s, is_first))
        return Ran({"y": feeds["x"] * 2}, waited_s=0.0)


@pytest.mark.parametrize(("batch", "rows"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (8, [5])])
def test_calls_are_batched_as_the_recipe_in_use_says(batch: int, rows: list[int]) -> None:
    recipe = Recipe(
        interpreter="python",
        engine="fake",
        model_format="onnx",
        model_fds=(),
        options=WorkerOptions(threads=1),
        warm_up={},
        deadline_s=3.0,
        batch=batch,
    )
    workers = FakeWorkers(recipe)
    model = ServingModel(
        cast(ModelWorkers, workers), recipes=[recipe], pipeline=cast(Pipeline, FakePipeline()), variant="only"
    )
    for _ in range(2):
        assert model.answer(b"").answer == {"doubled": [0.0, 2.0, 4.0, 6.0, 8.0]}
    one_item = [(count, 3.0, number == 0) for number, count in enumerate(rows)]
    assert workers.runs == one_item * 2
