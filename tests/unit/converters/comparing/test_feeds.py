"""Are inputs the same every time, and are somebody's own checked?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shoal_converters.comparing.feeds import load_feeds, make_feeds
from shoal_converters.errors import BadData
from shoal_wire.manifest import Tensor

INPUTS = (Tensor("x", "float32", (-1, 3, -1)), Tensor("ids", "int64", (1, 4)), Tensor("pixels", "uint8", (1, 8)))


def values() -> dict[str, Any]:
    return {"x": np.ones((2, 3, 5), np.float32), "ids": np.ones((1, 4), np.int64), "pixels": np.ones((1, 8), np.uint8)}


def test_random_inputs_follow_the_signature_and_are_the_same_every_time() -> None:
    first, again = (make_feeds(INPUTS, count=2, free_length=7, ranges={}) for _ in range(2))
    assert [first[0][name].shape for name in ("x", "ids", "pixels")] == [(1, 3, 7), (1, 4), (1, 8)]
    assert [first[0][name].dtype.name for name in ("x", "ids", "pixels")] == ["float32", "int64", "uint8"]
    assert set(np.unique(first[0]["ids"])) <= {0, 1}
    for one, other in zip(first, again, strict=True):
        np.testing.assert_equal(one, other)
    assert not np.array_equal(first[0]["x"], first[1]["x"])


def test_inputs_of_a_range_stay_in_it() -> None:
    (feeds,) = make_feeds([Tensor("x", "float32", (1, 1000))], count=1, free_length=1, ranges={"x": (-0.5, 2.0)})
    assert -0.5 <= feeds["x"].min() < -0.4
    assert 1.9 < feeds["x"].max() <= 2.0


def test_refuses_inputs_that_cannot_be_made_up() -> None:
    with pytest.raises(BadData, match="'s' is string"):
        make_feeds([Tensor("s", "string", (1,))], count=1, free_length=1, ranges={})
    with pytest.raises(BadData, match="at most"):
        make_feeds([Tensor("x", "float32", (1, 2**20, 2**20))], count=1, free_length=1, ranges={})


def test_takes_one_call_a_file_or_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **values())
    np.savez(tmp_path / "b.npz", **{f"{call}/{name}": array for call in (10, 9) for name, array in values().items()})
    assert len(load_feeds(tmp_path, INPUTS)) == 3
    assert len(load_feeds(tmp_path / "a.npz", INPUTS)) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ids": np.ones((1, 5), np.int64)}, r"expected 'ids' as int64 \[1, 4\], found int64 \[1, 5\]"),
        ({"x": np.ones((1, 3, 1))}, "found float64"),
        ({"more": np.ones(1)}, "expected the arrays"),
        ({"x": np.array([{}])}, "can't|Object|read"),
    ],
)
def test_refuses_arrays_that_are_not_the_inputs(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **(values() | change))
    with pytest.raises(BadData, match=reason):
        load_feeds(path, INPUTS)


def test_refuses_what_is_no_archive_and_a_folder_without(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="found none"):
        load_feeds(tmp_path, INPUTS)
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(BadData, match="not a NumPy"):
        load_feeds(tmp_path / "a.npz", INPUTS)
