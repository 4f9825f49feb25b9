"""How many calls of an item are given to the model at once, and which run of it is the first?"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from shoal_agent.front.model_workers import ModelWorkers, Recipe
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import Array, Ran, WorkerOptions


class FakePipeline:
    """Five calls, of the numbers 0 to 4. An answer is what the model gave for each."""

    def prepare(self, raw: bytes) -> Prepared[None]:
        return Prepared(calls=tuple({"x": np.array([[float(number)]])} for number in range(5)), context=None)

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


class DoublingPipeline(FakePipeline):
    """The second call takes what the first one gave, and so on until it is 8 or more."""

    def prepare(self, raw: bytes) -> Prepared[None]:
        return Prepared(calls=({"x": np.array([[1.0]])},), context=None, follow=self._follow)

    def _follow(self, number: int, outputs: Tensors) -> Tensors | None:
        assert outputs["y"][0, 0] == 2.0 ** (number + 1)
        return {"x": outputs["y"]} if outputs["y"][0, 0] < 8 else None


def recipe_of(batch: int) -> Recipe:
    return Recipe(
        interpreter="python",
        engine="fake",
        model_format="onnx",
        model_fds=(),
        options=WorkerOptions(threads=1),
        warm_up={},
        deadline_s=3.0,
        batch=batch,
    )


def model_of(workers: FakeWorkers, pipeline: FakePipeline) -> ServingModel:
    return ServingModel(
        cast(ModelWorkers, workers), recipes=[workers.recipe], pipeline=cast(Pipeline, pipeline), variant="only"
    )


@pytest.mark.parametrize(("batch", "rows"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (8, [5])])
def test_calls_are_batched_as_the_recipe_in_use_says(batch: int, rows: list[int]) -> None:
    workers = FakeWorkers(recipe_of(batch))
    model = model_of(workers, FakePipeline())
    for _ in range(2):
        assert model.answer(b"").answer == {"doubled": [0.0, 2.0, 4.0, 6.0, 8.0]}
    one_item = [(count, 3.0, number == 0) for number, count in enumerate(rows)]
    assert workers.runs == one_item * 2


def test_calls_that_follow_one_another_run_one_by_one_whatever_the_batch() -> None:
    workers = FakeWorkers(recipe_of(4))
    answered = model_of(workers, DoublingPipeline()).answer(b"")
    assert answered.answer == {"doubled": [2.0, 4.0, 8.0]}
    assert [float(outputs["y"][0, 0]) for outputs in answered.outputs] == [2.0, 4.0, 8.0]
    assert workers.runs == [(1, 3.0, True), (1, 3.0, False), (1, 3.0, False)]
