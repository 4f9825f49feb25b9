"""Do arrays become the files that they stand for, and are arrays of other kinds refused?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shoal_agent.front.operations.audio import DecodeWav
from shoal_agent.front.operations.images import DecodeImage
from shoal_converters.datasets import load_items
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task

LOT = np.random.default_rng(5)


def load(folder: Path, *, task: str = "classification", options: dict[str, Any] | None = None) -> list[Item]:
    data = Data(path="a.npz", options=options or {})
    return load_items(data, folder=folder, task=make_task(task, {}), labels=("a", "b"))


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_bytes_become_pictures(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = LOT.integers(256, size=(11, *shape), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.array(list("ababababaab")))

    items = load(tmp_path)

    assert [items[0].name, items[10].name, items[1].expected["label"]] == ["00", "10", "b"]
    pixels = np.stack([DecodeImage().apply(item.raw).pixels for item in items])
    assert np.array_equal(pixels, x if x.ndim == 4 else np.repeat(x[..., np.newaxis], 3, axis=3))


def test_samples_become_sounds(tmp_path: Path) -> None:
    x = LOT.uniform(-1, 1, size=(2, 100)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=x)
    items = load(tmp_path, options={"sample_rate_hz": 8_000})
    assert np.array_equal(np.stack([DecodeWav(sample_rate_hz=8_000).apply(item.raw).samples for item in items]), x)
    assert items[0].suffix == ".wav"


def test_masks_are_labels_of_a_segmentation(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2, 2), np.uint8), y=np.array([[[1, 1], [0, 1]]], np.uint8))
    (item,) = load(tmp_path, task="segmentation")
    assert item.expected["mask"]["runs"] == [[1, 2], [0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"z": np.zeros(3)}, {}, r"no array 'x', found \['z'\]"),
        ({"x": np.zeros((0, 2))}, {}, "x is empty"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(3)}, {}, r"y has the shape \[3\], expected 2 labels"),
        ({"x": np.array([[1.0], [np.nan]])}, {}, r"x\[1\] holds a value that is infinite or not a number"),
        ({"x": np.zeros((2, 3, 3, 4), np.uint8)}, {}, r"x is uint8\[2, 3, 3, 4\], expected"),
        ({"x": np.zeros((2, 3, 3, 3))}, {}, r"x is float64\[2, 3, 3, 3\], expected"),
        ({"x": np.array([["text"]])}, {}, "expected uint8"),
        ({"x": np.zeros((2, 3))}, {"columns": ["a"]}, "expected a last axis of 1"),
        ({"x": np.zeros((2, 3, 1))}, {"sample_rate_hz": 8_000}, r"expected float\[n, samples\]"),
        ({"x": np.full((2, 3), 2.0)}, {"sample_rate_hz": 8_000}, r"x goes up to 2, expected samples in \[-1, 1\]"),
        ({"x": np.zeros((2, 3)), "y": np.array([0, 7])}, {}, "1: label 7, expected places from 0 to 1, of a, b"),
        ({"x": np.zeros((1, 1)), "y": np.array([None])}, {}, "can't be read as .npz"),
    ],
)
def test_refuses_other_arrays(tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadData, match=said):
        load(tmp_path, options=options)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 cut short", b"text"])
def test_refuses_what_is_no_file_of_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(BadData, match=r"a\.npz: can't be read as \.npz"):
        load(tmp_path)
