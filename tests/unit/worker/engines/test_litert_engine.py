"""Does the LiteRT adapter load, run and refuse as a worker needs it?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shoal_worker.engines import load_engine
from shoal_worker.errors import BadTensor, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.messages import Load, TensorSpec

from tests.tflite_bytes import add_model, hybrid_model

REQUEST = Load(engine="litert", format="tflite", threads=1, precision="exact", memory_arena=True, device="")
LEFT = np.array([[1, 2, 3]], np.float32)


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("threads", [1, 2])
def test_adds(precision: str, threads: int) -> None:
    engine = load_engine(replace(REQUEST, precision=precision, threads=threads), files=[add_model()])
    assert engine.prepare({"left": LEFT, "right": 2 * LEFT}).run()["sum"].tolist() == [[3.0, 6.0, 9.0]]


def test_tells_signature_and_placement() -> None:
    engine = load_engine(REQUEST, files=[add_model(signature=(-1, 3))])
    assert (engine.placement, engine.devices, engine.plan) == (("CPU",), ("CPU",), None)
    assert engine.inputs == (TensorSpec("left", "float32", (None, 3)), TensorSpec("right", "float32", (None, 3)))
    assert engine.outputs == (TensorSpec("sum", "float32", (None, 3)),)


def test_lengths_that_vary_may_change_from_run_to_run() -> None:
    engine = load_engine(REQUEST, files=[add_model(signature=(-1, 3))])
    for rows in (1, 4, 2, 2):
        array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(engine.prepare({"left": array, "right": array}).run()["sum"], 2 * array)


def test_inputs_that_do_not_fit_are_refused() -> None:
    engine = load_engine(REQUEST, files=[add_model()])
    with pytest.raises(BadTensor, match=r"'left' is float32 \[1, 3\], found float32 \[2, 3\]"):
        engine.prepare({"left": np.ones((2, 3), np.float32), "right": LEFT})


@pytest.mark.parametrize(
    "model", [b"", b"not a model", add_model()[:100], add_model()[:-20]], ids=["empty", "text", "half", "end-missing"]
)
def test_bytes_that_are_no_whole_model_are_refused(model: bytes) -> None:
    with pytest.raises(ModelRefused, match="litert doesn't take the model"):
        load_engine(REQUEST, files=[model])


def test_unknown_requests_are_refused() -> None:
    with pytest.raises(EngineMissing, match="lists CPU here; found 'NPU'"):
        load_engine(replace(REQUEST, device="NPU"), files=[add_model()])
    with pytest.raises(ModelRefused, match="takes tflite; found a model in format 'onnx'"):
        load_engine(replace(REQUEST, format="onnx"), files=[add_model()])


def test_two_tensors_of_one_name_are_refused() -> None:
    model = add_model()
    assert model.count(b"right") == 1
    with pytest.raises(ModelRefused, match="a name of their own, found left, left"):
        load_engine(REQUEST, files=[model.replace(b"\5\0\0\0right\0", b"\4\0\0\0left\0\0")])


def test_a_run_that_was_cancelled_before_its_start_ends_at_once() -> None:
    engine = load_engine(REQUEST, files=[add_model()])
    inference = engine.prepare({"left": LEFT, "right": LEFT})
    inference.cancel()
    with pytest.raises(RunCancelled):
        inference.run()


@pytest.mark.parametrize("is_per_channel", [True, False])
def test_computes_dynamic_range_models_right(is_per_channel: bool) -> None:
    # Channels of very different size: with one scale for all, the small one would keep few of its steps.
    weights = np.array([[10, -5, 2.5], [0.1, 0.2, -0.3]], np.float32)
    engine = load_engine(REQUEST, files=[hybrid_model(weights, is_per_channel=is_per_channel)])
    x = np.array([[1, -2, 3]], np.float32)
    found = engine.prepare({"x": x}).run()["y"]
    # Input and weights are each rounded to steps of a 127th of the largest.
    step = 10 / 127 * np.abs(x).sum() + 3 / 127 * np.abs(weights).sum(axis=1)
    assert np.all(np.abs(found - x @ weights.T) <= step / 2 + 1e-3)
