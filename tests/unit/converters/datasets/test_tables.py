"""Do tables become items that the agent's own reader takes, with the right answers beside them?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shoal_agent.front.operations.tables import DecodeCsv
from shoal_converters.datasets import load_items
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task

TABLE = "width,kind,height\n1.5,tall,-2e3\n\n3, wide ,4\n"


def load(
    folder: Path, *, path: str = "t.csv", task: str = "classification", labels: tuple[str, ...] = (), **data: Any
) -> list[Item]:
    return load_items(Data(path=path, **data), folder=folder, task=make_task(task, {}), labels=labels)


def read(item: Item) -> list[list[float]]:
    rows: list[list[float]] = DecodeCsv(has_header=True).apply(item.raw).values.tolist()
    return rows


def test_each_row_is_an_item_without_its_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    items = load(tmp_path, options={"label": "kind"})
    assert [(item.name, item.expected["label"], read(item)) for item in items] == [
        ("row 1", "tall", [[1.5, -2000.0]]),
        ("row 2", "wide", [[3.0, 4.0]]),
    ]
    assert items[0].raw == b"width,height\n1.5,-2e3\n"


def test_columns_are_those_asked_for_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label;a;b;c\n0.5;1;2;x\n")
    (item,) = load(tmp_path, task="regression", options={"columns": ["b", "a"], "delimiter": ";"})
    assert (read(item), item.expected) == ([[2.0, 1.0]], {"values": {"value": 0.5}})


def test_several_columns_are_the_values_of_a_regression(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,heat,damp\n1,20.5,0.4\n")
    (item,) = load(tmp_path, task="regression", labels=("damp", "heat"), options={"label": ["heat", "damp"]})
    assert item.expected == {"values": {"damp": 0.4, "heat": 20.5}}


def test_without_a_column_for_labels_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert [item.expected for item in load(tmp_path)] == [{}]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a,label\n", {}, "no rows"),
        ("", {}, "empty"),
        ("a,label\nnan,x\n", {}, "line 2: column 'a': 'nan', expected a finite number"),
        ("a,label\n1,x\n,y\n", {}, "line 3: column 'a': '', expected a number"),
        ("a,label\n1,x,3\n", {}, "line 2 has 3 cells, expected 2"),
        ("a,b\n1,2\n", {"label": "kind"}, "no column 'kind'"),
        ("a,b\n1,2\n", {"columns": ["c"]}, "no column 'c'"),
        ("a,a\n1,2\n", {}, "a column is named twice"),
        ("a,label\n1,x\n2,\n", {}, "row 2: label '', expected the name of a label"),
    ],
)
def test_refuses_a_broken_table(tmp_path: Path, text: str, options: dict[str, object], said: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadData, match=said):
        load(tmp_path, options=options)


@pytest.mark.parametrize("options", [{"lable": "a"}, {"columns": 3}])
def test_refuses_unknown_options(tmp_path: Path, options: dict[str, object]) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(BadRecipe, match=r"data set t\.csv: options"):
        load(tmp_path, options=options)


def test_a_folder_of_tables_is_a_set_of_sequences(tmp_path: Path) -> None:
    (tmp_path / "set" / "run").mkdir(parents=True)
    (tmp_path / "set" / "run" / "1.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "set" / "walk").mkdir()
    (tmp_path / "set" / "walk" / "1.csv").write_text("x,y\n5,6\n")
    run, walk = load(tmp_path, path="set")
    assert (run.expected["label"], walk.expected["label"]) == ("run", "walk")
    assert read(run) == [[1.0, 2.0], [3.0, 4.0]]

    (tmp_path / "set" / "labels.csv").write_text("file,label\nwalk/1.csv,slow\n")
    (item,) = load(tmp_path, path="set")
    assert (item.name, item.expected["label"]) == ("walk/1.csv", "slow")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("x,z\n1,2\n", "2.csv: columns .*expected .'x', 'y'."),
        ("x,y\n1,inf\n", "column 'y': 'inf'"),
        ("x,y\n", "no rows"),
    ],
)
def test_refuses_a_sequence_unlike_the_others(tmp_path: Path, second: str, said: str) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "1.csv").write_text("x,y\n1,2\n")
    (tmp_path / "set" / "2.csv").write_text(second)
    with pytest.raises(BadData, match=said):
        load(tmp_path, path="set")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_numbers_of_arrays_come_back_as_they_were(tmp_path: Path, dtype: type) -> None:
    x: NDArray[Any] = (np.random.default_rng(1).normal(size=(3, 4, 2)) * 100).astype(dtype)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([0, 1, 0]))
    items = load(tmp_path, path="a.npz", labels=("no", "yes"))
    assert [item.expected["label"] for item in items] == ["no", "yes", "no"]
    assert np.array_equal(np.array([read(item) for item in items], dtype), x)
