"""When is a plan sought for a model, and what serves until it is there?"""

from typing import Literal

import pytest
from shoal_agent.front.loading import LoadSetting, Way, make_recipes
from shoal_agent.front.plan_serving import is_chosen_otherwise
from shoal_agent.front.worker import WorkerOptions
from shoal_agent.tuned import ServingChoice
from shoal_wire.manifest import Variant
from shoal_wire.tuning import Candidate

MODEL, OTHER = "a" * 64, "b" * 64
SETTING = LoadSetting(
    options=WorkerOptions(threads=2),
    interpreters={"onnxruntime": "/usr/bin/python3", "tensorrt": "/usr/bin/python3.10"},
    engines=("onnxruntime", "tensorrt"),
    own="/opt/shoal/bin/python",
    deadline_s=5.0,
)


def candidate(engine: str, *, precision: Literal["exact", "fast"] = "exact") -> Candidate:
    return Candidate(variant="onnx-fp32", engine=engine, precision=precision, threads=1, batch=1)


@pytest.mark.parametrize("engine", ["onnxruntime", "tensorrt", None])
def test_the_engine_that_builds_plans_comes_last_whatever_tuning_chose(engine: str | None) -> None:
    variant = Variant(name="onnx-fp32", format="onnx", precision="fp32", files=("model",))
    choice = candidate(engine, precision="fast") if engine else None
    recipes = make_recipes(Way(variant=variant, choice=choice), SETTING, model_fds=(3,), warm_up={})
    assert [recipe.engine for recipe in recipes] == ["onnxruntime", "tensorrt"]
    assert recipes[1].options.precision == ("fast" if engine == "tensorrt" else "exact")


@pytest.mark.parametrize(
    ("engine", "files", "expected"),
    [
        ("onnxruntime", (MODEL,), True),
        ("tensorrt", (MODEL,), False),
        ("onnxruntime", (OTHER,), False),
        ("litert", (MODEL, OTHER), False),
    ],
)
def test_a_model_stays_where_tuning_found_another_engine_better_for_these_bytes(
    engine: str, files: tuple[str, ...], expected: bool
) -> None:
    chosen = ServingChoice(candidate=candidate(engine), files=files, engine_version="1", key="c" * 64)
    assert is_chosen_otherwise(chosen, model_sha256=MODEL, engine="tensorrt") is expected


def test_a_board_that_was_never_tuned_seeks_a_plan() -> None:
    assert not is_chosen_otherwise(None, model_sha256=MODEL, engine="tensorrt")
