"""Do sets from text and code load, are parts drawn fairly, and are two sets apart?"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.datasets import check_disjoint, check_labelled, load_items
from shoal_converters.datasets.drawing import draw
from shoal_converters.datasets.found import Found, Loaded
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task


def load(folder: Path, path: str, *, task: str = "classification", **data: Any) -> list[Item]:
    return load_items(Data(path=path, **data), folder=folder, task=make_task(task, {}), labels=())


def test_each_line_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "grüß", "label": "hello"}\n\n{"text": "bye", "label": "end"}\n')
    first, second = load(tmp_path, "t.jsonl")
    assert (first.raw, first.expected, first.name) == ("grüß".encode(), {"label": "hello"}, "line 1")
    assert second.name == "line 3"


def test_tokens_are_expected_of_a_text_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "once", "label": [3, 1]}\n')
    assert load(tmp_path, "t.jsonl", task="text")[0].expected == {"tokens": [3, 1]}


@pytest.mark.parametrize("line", ['{"label": "x"}', '{"text": 3}', "text", '{"text": "a", "lable": "x"}'])
def test_refuses_another_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "a", "label": "x"}\n' + line)
    with pytest.raises(BadData, match=r"t\.jsonl: line 2: "):
        load(tmp_path, "t.jsonl")


def test_code_gives_items_by_its_options(tmp_path: Path) -> None:
    (tmp_path / "publisher_items.py").write_text(
        "def give(*, count):\n"
        "    for n in range(count):\n"
        "        yield f'{n}.bin', bytes([n]), ('even', 'odd')[n % 2]\n"
    )
    items = load(tmp_path, "publisher_items:give", options={"count": 3})
    assert [(item.name, item.raw, item.expected["label"], item.suffix) for item in items] == [
        ("0.bin", b"\0", "even", ".bin"),
        ("1.bin", b"\1", "odd", ".bin"),
        ("2.bin", b"\2", "even", ".bin"),
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return [('a', 'text', 1)]", r"item 0 is \('a', 'text', 1\), expected a tuple \(name, raw bytes, label\)"),
        ("return [object()]", "item 0 is <object object>, expected"),
        ("return [('a', b'', object())]", "give: a: label <object object>, expected the name of a label"),
        ("return []", "empty"),
        ("raise KeyError('disk')", "KeyError: 'disk'"),
        ("return 3", "TypeError"),
    ],
)
def test_refuses_other_code(tmp_path: Path, body: str, said: str) -> None:
    module = f"publisher_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(f"def give():\n    {body}\n")
    with pytest.raises(BadData, match=said):
        load(tmp_path, f"{module}:give")
    with pytest.raises(BadData, match="no attribute 'take'"):
        load(tmp_path, f"{module}:take")
    with pytest.raises(BadData, match="No module named"):
        load(tmp_path, "publisher_missing:give")


def test_refuses_an_unknown_kind(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="unknown kind 'parquet', expected one of"):
        load(tmp_path, "x", kind="parquet")


def found(labels: list[str]) -> list[Found]:
    return [
        Found(name=str(place), suffix="", stratum=label, load=partial(Loaded, b"", label))
        for place, label in enumerate(labels)
    ]


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=60), st.integers(1, 70), st.integers(0, 3))
def test_a_drawn_part_keeps_shares_and_order(labels: list[str], limit: int, seed: int) -> None:
    part = draw(found(labels), limit=limit, seed=seed)
    places = [int(one.name) for one in part]
    assert places == sorted(set(places))
    assert len(part) == min(limit, len(labels))
    drawn = Counter(one.stratum for one in part)
    for label, count in Counter(labels).items():
        assert abs(drawn[label] - len(part) * count / len(labels)) < 1


def test_the_same_seed_draws_the_same_and_another_other_items() -> None:
    names = [[one.name for one in draw(found(["x"] * 100), limit=10, seed=seed)] for seed in (0, 0, 1)]
    assert names[0] == names[1] != names[2]


def test_without_few_labels_every_item_is_as_likely() -> None:
    """Each label is there once: what is drawn must not be the first ones."""
    part = draw(found([str(place) for place in range(1000)]), limit=100, seed=0)
    assert 400 < sum(int(one.name) for one in part) / 100 < 600


def item(name: str, raw: bytes, *, label: str = "x") -> Item:
    return Item(name=name, raw=raw, expected={"label": label} if label else {})


def test_calibration_and_evaluation_must_not_share_bytes() -> None:
    check_disjoint([item("a", b"1")], [item("a", b"2")])
    with pytest.raises(BadData, match="1 items in common: 'a' is 'b'"):
        check_disjoint([item("a", b"1"), item("c", b"3")], [item("b", b"1")])


def test_a_set_without_labels_measures_nothing() -> None:
    check_labelled([item("a", b"")], what="evaluation set")
    with pytest.raises(BadData, match="evaluation set: no labels"):
        check_labelled([item("a", b"", label="")], what="evaluation set")
