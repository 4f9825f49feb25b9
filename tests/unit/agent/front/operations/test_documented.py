"""Does docs/operations.md name every operation with all its parameters, and do its examples hold?"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from shoal_agent.front.operations import COMPARISONS, POST, PRE
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.manifest import Operation

TEXT = (Path(__file__).parents[5] / "docs" / "operations.md").read_text()
OPERATIONS: dict[str, type[Any]] = {**PRE, **POST, **COMPARISONS}
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
TASKS = {
    *("classification", "detection", "segmentation", "events", "embedding", "regression", "anomaly", "text", "faces"),
    "notes",
}


def section(heading: str) -> str:
    """What stands below a heading of the third level."""
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/operations.md: no heading ### {heading}"
    return found[1]


def list_structs(kind: Any) -> Iterator[type[Any]]:
    """Structs in a type, at any depth."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls
        parts: tuple[Any, ...] = tuple(field.type for field in kind.fields)
    else:
        parts = (
            *getattr(kind, "types", ()),
            *getattr(kind, "item_types", ()),
            *filter(None, [getattr(kind, "item_type", None)]),
        )
    for part in parts:
        yield from list_structs(part)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_parameter_of_an_operation_is_in_its_section(name: str) -> None:
    told = section(f"`{name}`")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", told, re.MULTILINE)
    structs = list(list_structs(inspect.type_info(OPERATIONS[name])))
    fields = [field for struct in structs for field in msgspec.structs.fields(struct)]
    assert [row[0] for row in rows] == [field.name for field in fields]
    assert [row[2] == "required" for row in rows] == [field.required for field in fields]


@pytest.mark.parametrize("name", [*PRE, *POST])
def test_what_an_operation_takes_and_gives_is_in_its_section(name: str) -> None:
    told = section(f"`{name}`")
    step = OPERATIONS[name]
    for verb, kind in (("Takes", step.takes), ("gives", step.gives)):
        word = {"dict": "the answer"}.get(kind.__name__, kind.__name__)
        assert re.search(rf"\b{verb} {word}\b", told)


def test_nothing_is_told_of_operations_that_do_not_exist() -> None:
    assert set(re.findall(r"^### `(.+)`$", TEXT, re.MULTILINE)) == set(OPERATIONS)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_task_has_an_example(task: str) -> None:
    assert "```toml" in section(task)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_pipeline(example: str) -> None:
    pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
    pytest.importorskip("tokenizers", reason="tokenizers is an extra: shoal-agent[text]")
    recipe = tomllib.loads(example)
    chains = {which: msgspec.convert(recipe[which], tuple[Operation, ...]) for which in ("pre", "post")}
    Pipeline(pre=chains["pre"], post=chains["post"])
