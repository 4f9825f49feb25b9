"""Is a recipe that was written the one that is read back?"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shoal_converters.errors import BadRecipe
from shoal_converters.importing.recipe_toml import format_recipe, write_recipe
from shoal_converters.recipe import Budget, Data, Recipe, Source, load_recipe
from shoal_wire.manifest import Operation, Tensor

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(allow_nan=False) | st.integers(-(2**63) + 1, 2**63 - 1)
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXT | NUMBERS | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PARAMETERS = st.dictionaries(TEXT, VALUES, max_size=4)
OPERATIONS = st.builds(Operation, st.just("image.fit"), PARAMETERS)


def recipe(**more: Any) -> Recipe:
    needed: dict[str, Any] = {
        "name": "net",
        "version": 1,
        "created_at": "2026-01-01",
        "licence": "Apache-2.0",
        "task": "classification",
        "source": Source(path="net.onnx"),
        "pre": (),
        "post": (),
        "evaluation": Data(path="evaluation"),
    }
    return Recipe(**(needed | more))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(licence=TEXT, labels=st.lists(TEXT, max_size=4), pre=st.lists(OPERATIONS, max_size=3), options=PARAMETERS)
def test_any_recipe_is_read_back(
    tmp_path: Path, licence: str, labels: list[str], pre: list[Operation], options: dict[str, Any]
) -> None:
    written = recipe(licence=licence, labels=tuple(labels), pre=tuple(pre), task_options=options)
    path = tmp_path / "recipe.toml"
    path.unlink(missing_ok=True)
    write_recipe(written, path, left=[f"licence {licence}"])
    assert load_recipe(path) == written


def test_usual_values_are_left_out_and_others_kept(tmp_path: Path) -> None:
    inputs = (Tensor("x", "float32", (-1, 3)),)
    written = recipe(source=Source(path="m:f", inputs=inputs), budget=Budget(max_drop=0.02), calibration=Data(path="c"))
    text = format_recipe(written)
    assert "seed" not in text
    assert "[budget]\nmax_drop = 0.02\n" in text
    assert 'inputs = [{ name = "x", dtype = "float32", shape = [-1, 3] }]' in text
    path = tmp_path / "recipe.toml"
    write_recipe(written, path)
    assert load_recipe(path) == written


def test_says_above_what_is_left_on_one_line_each() -> None:
    assert format_recipe(recipe(), left=["a\nb = 1"]).startswith("# To do: a b = 1\n\nname = ")


@pytest.mark.parametrize("value", [None, 2**64, "\ud800"])
def test_refuses_what_toml_cannot_hold(value: object) -> None:
    with pytest.raises(BadRecipe, match="recipe: "):
        format_recipe(recipe(task_options={"a": value}))


def test_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("mine")
    with pytest.raises(BadRecipe, match="exists"):
        write_recipe(recipe(), path)
    assert path.read_text() == "mine"
