"""Is a sound given to a model in the length or in the frames that it takes, and does its state go on from each?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.batching import run_prepared
from shoal_agent.front.operations.errors import BadInput, BadOutput
from shoal_agent.front.operations.streams import MAX_CALLS, Constant, FitSound, State, Stream
from shoal_agent.front.operations.values import Sound, Tensors

RATE_HZ = 8_000
SUM = State(input="sum", output="sum_after", shape=(1,))


def counting(samples: int) -> Sound:
    return Sound(samples=np.arange(1, samples + 1, dtype=np.float32), sample_rate_hz=RATE_HZ)


def listen(call: Tensors) -> Tensors:
    """A model that adds up what it hears."""
    total = call["sum"] + call["in"].sum()
    return {"heard": total * call["factor"], "sum_after": total}


def fit(samples: int, *, wanted: int, where: Any = "start") -> list[float]:
    fitted: list[float] = FitSound(length_s=wanted / RATE_HZ, where=where).apply(counting(samples)).samples.tolist()
    return fitted


def test_a_sound_is_cut_or_padded_at_its_end() -> None:
    assert fit(10, wanted=8) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert fit(6, wanted=8) == [1, 2, 3, 4, 5, 6, 0, 0]
    assert fit(8, wanted=8) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_sound_is_cut_or_padded_around_its_middle() -> None:
    assert fit(12, wanted=8, where="middle") == [3, 4, 5, 6, 7, 8, 9, 10]
    assert fit(11, wanted=8, where="middle") == [2, 3, 4, 5, 6, 7, 8, 9]
    assert fit(5, wanted=8, where="middle") == [0, 1, 2, 3, 4, 5, 0, 0]


@given(st.integers(8, 300), st.integers(1, 300), st.sampled_from(["start", "middle"]))
def test_a_fitted_sound_has_its_length_and_its_samples_in_order(wanted: int, samples: int, where: str) -> None:
    fitted = fit(samples, wanted=wanted, where=where)
    assert len(fitted) == wanted
    heard = [value for value in fitted if value]
    assert len(heard) == min(wanted, samples)
    assert heard == list(range(int(heard[0]), int(heard[0]) + len(heard)))


def test_frames_follow_one_another_with_what_came_before_in_front() -> None:
    prepared = Stream(input="in", frame_samples=4, context_samples=2).apply(counting(9))
    assert prepared.follow is None
    assert [call["in"].tolist() for call in prepared.calls] == [
        [[0, 0, 1, 2, 3, 4]],
        [[3, 4, 5, 6, 7, 8]],
        [[7, 8, 9, 0, 0, 0]],
    ]
    assert prepared.calls[0]["in"].dtype == np.float32
    assert (prepared.context.call_s, prepared.context.sound_s) == (4 / RATE_HZ, 9 / RATE_HZ)


@pytest.mark.parametrize(
    ("layout", "shape"), [("samples", (1, 4)), ("samples-channel", (1, 4, 1)), ("channel-samples", (1, 1, 4))]
)
def test_a_frame_has_the_shape_that_the_layout_says(layout: Any, shape: tuple[int, ...]) -> None:
    prepared = Stream(input="in", frame_samples=4, layout=layout).apply(counting(8))
    assert [call["in"].shape for call in prepared.calls] == [shape, shape]
    assert prepared.calls[1]["in"].reshape(-1).tolist() == [5, 6, 7, 8]


def test_a_state_goes_from_each_call_to_the_next_and_constants_to_all() -> None:
    step = Stream(
        input="in",
        frame_samples=4,
        states=(SUM,),
        constants=(Constant(input="factor", dtype="int64", value=10.0),),
    )
    prepared = step.apply(counting(9))
    assert len(prepared.calls) == 1
    assert prepared.calls[0]["sum"].tolist() == [0]
    assert prepared.calls[0]["factor"].shape == ()
    assert prepared.calls[0]["factor"].dtype == np.int64
    outputs = run_prepared(prepared, batch=4, run=listen)
    assert [float(call["heard"][0]) for call in outputs] == [100, 360, 450]


def test_two_sounds_at_once_do_not_share_a_state() -> None:
    step = Stream(
        input="in", frame_samples=4, states=(SUM,), constants=(Constant(input="factor", dtype="float32", value=1),)
    )
    first, second = step.apply(counting(8)), step.apply(counting(8))
    assert first.follow is not None
    first.follow(0, listen(first.calls[0]))
    assert second.calls[0]["sum"].tolist() == [0]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "'sum_after' is missing"),
        (np.zeros(2, np.float32), r"shape \[2\], expected \[1\]"),
        (np.full(1, np.nan, np.float32), "not finite"),
    ],
)
def test_refuses_a_state_that_cannot_go_on(left: NDArray[np.float32] | None, said: str) -> None:
    prepared = Stream(input="in", frame_samples=4, states=(SUM,)).apply(counting(8))
    assert prepared.follow is not None
    with pytest.raises(BadOutput, match=said):
        prepared.follow(0, {} if left is None else {"sum_after": left})


def test_refuses_a_sound_of_too_many_frames() -> None:
    with pytest.raises(BadInput, match=f"expected at most {MAX_CALLS}"):
        Stream(input="in", frame_samples=1).apply(counting(MAX_CALLS + 1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stream(input="sum", frame_samples=4, states=(SUM,)), "'sum' is given twice"),
        (lambda: State(input="a", output="b", shape=(4_096, 4_096)), "expected at most"),
        (lambda: Constant(input="a", dtype="int32", value=0.5), "no whole number"),
        (lambda: Constant(input="a", dtype="int64", value=1e20), "no whole number"),
        (lambda: Constant(input="a", dtype="bool", shape=(4_096, 4_096), value=1), "expected at most"),
    ],
)
def test_refuses_parameters_that_contradict_one_another(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
