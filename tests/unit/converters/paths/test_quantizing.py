"""Do the paths that quantize read options and calls right, measure changes as NumPy does, and find what breaks?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.errors import BadData, BadRecipe
from shoal_converters.paths.messages import Request
from shoal_converters.paths.quantizing import (
    LARGEST_CHANGE,
    Calibration,
    Options,
    find_breaking,
    measure_groups,
    read_options,
    relative_change,
)


def _request(**more: object) -> Request:
    return Request(source="/m", format="onnx-fp32", folder="/f", variants=("onnx-int8",), **more)  # type: ignore[arg-type]


def test_refuses_an_option_that_nobody_reads() -> None:
    with pytest.raises(BadRecipe, match="per_chanel"):
        read_options(_request(options={"per_chanel": True}))


def test_refuses_a_conversion_without_a_calibration_set() -> None:
    with pytest.raises(BadData, match="onnx-int8: needs a calibration set"):
        Calibration(_request(), bindings=(), limit=1)


def test_refuses_a_calibration_set_that_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    path.write_bytes(b"PK no zip")
    with pytest.raises(BadData, match=r"not an \.npz of calls"):
        Calibration(_request(calibration=f"{path}"), bindings=(), limit=1)


def test_refuses_arrays_that_are_no_calls(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", x=np.zeros(1))
    with pytest.raises(BadData, match="expected arrays <call>/<input>, found 'x'"):
        Calibration(_request(calibration=f"{tmp_path}/c.npz"), bindings=(), limit=1)


def test_calls_come_in_the_order_of_their_numbers_and_no_more_than_wanted(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {f"{call}/a/b": np.array(call) for call in (10, 2, 0)}
    np.savez(tmp_path / "c.npz", **arrays)
    calibration = Calibration(_request(calibration=f"{tmp_path}/c.npz"), bindings=(), limit=2)
    assert [int(call["a/b"]) for call in calibration.read()] == [0, 2]
    assert [int(call["a/b"]) for call in calibration.read(1, 2)] == [2]


def test_change_is_the_relative_root_mean_square_of_the_output_that_moves_most() -> None:
    rng = np.random.default_rng(1)
    reference = [{"a": rng.random(5, np.float32), "b": rng.random(3, np.float32), "i": np.array(1)} for _ in range(2)]
    changed = [{"a": one["a"] + 1, "b": one["b"] * 1.5, "i": np.array(9)} for one in reference]
    a = np.concatenate([one["a"] for one in reference])
    assert relative_change(reference, changed) == pytest.approx(1 / np.sqrt(np.mean(a.astype(np.float64) ** 2)))
    assert relative_change(reference, reference) == 0


def test_outputs_that_are_not_finite_count_as_the_largest_change() -> None:
    assert relative_change([{"a": np.ones(1)}], [{"a": np.array([np.nan])}]) == LARGEST_CHANGE
    assert relative_change([{"a": np.zeros(1)}], [{"a": np.full(1, 1e-9)}]) == 1


def test_groups_for_which_there_is_no_time_are_left() -> None:
    times = iter([0.0, 1.0, 59.0, 61.0])
    options = Options(groups=(("a",), ("b", "c"), ("d",)), measure_s=60)
    assert measure_groups(options, lambda group: float(len(group)), clock=lambda: next(times)) == (1.0, 2.0, None)


@given(count=st.integers(0, 40), data=st.data())
def test_finds_layers_without_which_it_works_and_not_more(count: int, data: st.DataObject) -> None:
    layers = [f"{place}" for place in range(count)]
    sets = st.sets(st.sampled_from(layers), min_size=1, max_size=2) if layers else st.nothing()
    conflicts = data.draw(st.lists(sets, max_size=4)) if layers else []

    def works(some: list[str]) -> bool:
        return not any(conflict <= set(some) for conflict in conflicts)

    broken = find_breaking(layers, lambda some: works(list(some)))
    assert works([layer for layer in layers if layer not in broken])
    assert all(any(layer in conflict for conflict in conflicts) for layer in broken)
    assert len(broken) <= len(conflicts)
