"""Is a calibration set turned into calls that are right, bounded and the same each time?"""

import io
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Tensors
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.quantization.calibration import Collected, collect_calls
from shoal_wire.manifest import Operation, Tensor

FRAME = 100
ROW = Tensor("x", "float32", (-1, 2))


def _rows() -> Pipeline:
    """A CSV of one row → the input x."""
    return Pipeline(
        pre=(Operation("table.decode_csv"), Operation("table.feed", {"input": "x", "columns": 2})),
        post=(Operation("values.read", {"output": "y", "names": ["a"]}),),
    )


def _sounds(*, has_state: bool) -> Pipeline:
    """A WAV → frames as the input x, perhaps with a state."""
    states = [{"input": "s", "output": "t", "shape": [1]}] if has_state else []
    stream = {"input": "x", "frame_samples": FRAME, "states": states}
    return Pipeline(
        pre=(Operation("audio.decode_wav", {"sample_rate_hz": 8000}), Operation("audio.stream", stream)),
        post=(Operation("values.read", {"output": "y", "names": ["a"]}),),
    )


def _item(content: str | bytes, name: str = "one") -> Item:
    return Item(name=name, raw=content.encode() if isinstance(content, str) else content)


def _wav(frames: int, *, start: int = 0) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((np.repeat(np.arange(frames) + start, FRAME) * 64).astype("<i2").tobytes())
    return out.getvalue()


def _collect(items: Sequence[Item], path: Path, **more: object) -> Collected:
    return collect_calls(items, **{"pipeline": _rows(), "inputs": (ROW,), "path": path, **more})  # type: ignore[arg-type]


def test_each_item_becomes_a_call(tmp_path: Path) -> None:
    made = _collect([_item("1,2"), _item("3,4")], tmp_path / "c.npz")
    assert (made.calls, made.items, made.notes) == (2, 2, ())
    arrays = np.load(made.path)
    assert arrays["0/x"].tolist() == [[1, 2]] and arrays["1/x"].tolist() == [[3, 4]]
    assert arrays["0/x"].dtype == np.float32


def test_the_same_items_give_the_same_bytes(tmp_path: Path) -> None:
    written = [_collect([_item("1,2"), _item("3,4")], tmp_path / f"{name}.npz").path.read_bytes() for name in "ab"]
    assert written[0] == written[1]


def test_long_items_give_as_many_calls_as_short_ones_evenly_over_their_length(tmp_path: Path) -> None:
    made = collect_calls(
        [_item(_wav(40), "long"), _item(_wav(3, start=100), "short")],
        pipeline=_sounds(has_state=False),
        inputs=(Tensor("x", "float32", (1, FRAME)),),
        path=tmp_path / "c.npz",
        max_calls=8,
    )
    arrays = np.load(made.path)
    first = [round(float(arrays[f"{call}/x"][0, 0]) * 512) for call in range(made.calls)]
    assert first == [0, 10, 20, 30, 100, 101, 102]


def test_bytes_are_bounded_and_it_is_told(tmp_path: Path) -> None:
    made = _collect([_item("1,2")] * 9 + [_item("0,0")], tmp_path / "c.npz", max_bytes=20)
    assert (made.calls, made.items) == (2, 2)
    assert made.notes[-1] == "calibration: 2 calls of the first 2 of 10 items are enough or all that fits"


def test_calls_that_depend_on_outputs_follow_the_original(tmp_path: Path) -> None:
    def run(call: Tensors) -> Tensors:
        return {"y": np.zeros((1, 1), np.float32), "t": call["s"] + 1}

    made = collect_calls(
        [_item(_wav(3))],
        pipeline=_sounds(has_state=True),
        inputs=(Tensor("x", "float32", (1, FRAME)), Tensor("s", "float32", (1,))),
        path=tmp_path / "c.npz",
        run=run,
    )
    arrays = np.load(made.path)
    assert [arrays[f"{call}/s"].tolist() for call in range(3)] == [[0], [1], [2]]


def test_calls_that_depend_on_outputs_are_refused_without_the_original(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="one: calls of this model depend on outputs of those before"):
        collect_calls([_item(_wav(3))], pipeline=_sounds(has_state=True), inputs=(), path=tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "it has no item"),
        ([_item("1,2"), _item("1,x", "second")], "second: table: row 1, column 2"),
        ([_item("5,5")] * 3, r"all of its calls are the same \(x is 5\)"),
    ],
)
def test_sets_that_tell_nothing_are_refused(items: list[Item], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=words):
        _collect(items, tmp_path / "c.npz")


def test_calls_of_another_signature_are_refused(tmp_path: Path) -> None:
    for tensor, words in [
        (Tensor("x", "float32", (-1, 3)), r"one: x: expected float32\[-1, 3\], found float32\[1, 2\]"),
        (Tensor("x", "int8", (-1, 2)), r"expected int8\[-1, 2\]"),
        (Tensor("z", "float32", (-1, 2)), r"expected the inputs \['z'\], found \['x'\]"),
    ]:
        with pytest.raises(BadData, match=words):
            _collect([_item("1,2")], tmp_path / "c.npz", inputs=(tensor,))
