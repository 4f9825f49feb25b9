"""Does a set mean its labels as names or as places, all of them alike?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.datasets import load_items
from shoal_converters.datasets.label_readings import choose_reading, read_label
from shoal_converters.errors import BadData
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task

COUNTED = ("1", "2", "3")
PETS = ("cat", "dog")


def load(folder: Path, y: Any, *, labels: tuple[str, ...], labels_are: Any = "either") -> list[object]:
    np.savez(folder / "set.npz", x=np.zeros((len(y), 2), np.float32), y=np.array(y))
    items = load_items(
        Data(path="set.npz", labels_are=labels_are),
        folder=folder,
        task=make_task("classification", {}),
        labels=labels,
    )
    return [item.expected["label"] for item in items]


@pytest.mark.parametrize(
    ("y", "labels", "meant"),
    [
        ([0, 1, 2], COUNTED, ["1", "2", "3"]),
        (["0", "1", "2"], COUNTED, ["1", "2", "3"]),
        ([1, 2, 3], COUNTED, ["1", "2", "3"]),
        (["3", "2", "1"], COUNTED, ["3", "2", "1"]),
        ([1, 0], PETS, ["dog", "cat"]),
        (["dog", "cat"], PETS, ["dog", "cat"]),
        ([2, 0, 1], ("0", "1", "2"), ["2", "0", "1"]),
        ([7, 8], (), ["7", "8"]),
    ],
)
def test_all_labels_of_a_set_are_names_or_all_are_places(
    tmp_path: Path, y: Any, labels: tuple[str, ...], meant: list[str]
) -> None:
    assert load(tmp_path, y, labels=labels) == meant


@pytest.mark.parametrize("y", [[1, 2, 1], ["1", "2", "1"]])
def test_refuses_labels_that_can_be_both_unless_the_recipe_says_which(tmp_path: Path, y: Any) -> None:
    said = r"set\.npz: 0: label '?1'? is 1 if labels are names, but 2 if .* write labels_are = \"names\" or"
    with pytest.raises(BadData, match=said):
        load(tmp_path, y, labels=COUNTED)
    assert load(tmp_path, y, labels=COUNTED, labels_are="names") == ["1", "2", "1"]
    assert load(tmp_path, y, labels=COUNTED, labels_are="places") == ["2", "3", "2"]


@pytest.mark.parametrize(
    ("y", "labels_are", "said"),
    [
        (["cat", "1"], "either", "1: label '1', expected one of cat, dog, or in the whole set places from 0 to 1"),
        ([0, 1, 2], "either", "2: label 2, expected places from 0 to 1, of cat, dog"),
        ([0, 1], "names", "0: label 0, expected one of cat, dog"),
        (["cat"], "places", "0: label 'cat', expected places from 0 to 1"),
        (["9" * 5000], "either", "expected one of cat, dog"),
    ],
)
def test_refuses_a_set_that_neither_reading_fits(tmp_path: Path, y: Any, labels_are: str, said: str) -> None:
    with pytest.raises(BadData, match=said):
        load(tmp_path, y, labels=PETS, labels_are=labels_are)


@given(st.lists(st.sampled_from(["0", "1", "2", "3"]), min_size=1), st.permutations(["0", "1", "2"]))
def test_a_reading_is_chosen_only_where_no_other_would_say_something_else(said: list[str], labels: list[str]) -> None:
    task = make_task("classification", {})
    read = [read_label(one, item=one, task=task, labels=labels, labels_are="either") for one in said]
    if "3" in said or any(labels[int(one)] != one for one in said):
        with pytest.raises(BadData):
            choose_reading(read, task=task, labels_are="either")
    else:
        assert choose_reading(read, task=task, labels_are="either") == "names"
