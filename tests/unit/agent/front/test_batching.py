"""Do calls that are given together get the same outputs as one by one, and do those that depend on another end?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.batching import MAX_FOLLOWING_BYTES, MAX_FOLLOWING_CALLS, run_batched, run_prepared
from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Prepared, Tensors


def call(number: int) -> Tensors:
    return {"x": np.full((1, 3), number, np.float32), "y": np.full((1,), -number, np.int64)}


@given(st.integers(0, 9), st.integers(1, 12))
def test_outputs_come_in_the_order_of_the_calls(count: int, batch: int) -> None:
    asked: list[int] = []

    def run(feeds: Tensors) -> Tensors:
        asked.append(len(feeds["x"]))
        return {"sum": feeds["x"].sum(axis=1) + feeds["y"], "same": feeds["x"]}

    outputs = run_batched([call(number) for number in range(count)], batch=batch, run=run)

    assert [output["sum"].tolist() for output in outputs] == [[2.0 * number] for number in range(count)]
    assert [output["same"].shape for output in outputs] == [(1, 3)] * count
    assert sum(asked) == count and all(size <= batch for size in asked)


def test_an_output_that_is_not_as_long_as_its_batch_is_refused() -> None:
    with pytest.raises(BadOutput, match=r"'sum': expected 2 rows for a batch of 2, found \(1,\)"):
        run_batched([call(1), call(2)], batch=2, run=lambda feeds: {"sum": np.zeros(1)})


@given(st.lists(st.sampled_from([8000, 16000]), min_size=1, max_size=9), st.integers(1, 5))
def test_single_numbers_are_given_once_for_calls_that_have_the_same(rates: list[int], batch: int) -> None:
    def run(feeds: Tensors) -> Tensors:
        assert feeds["rate"].shape == ()
        return {"sum": feeds["x"].sum(axis=1) + feeds["rate"]}

    calls = [call(number) | {"rate": np.array(rate)} for number, rate in enumerate(rates)]
    outputs = run_batched(calls, batch=batch, run=run)

    assert [output["sum"].tolist() for output in outputs] == [
        [3.0 * number + rate] for number, rate in enumerate(rates)
    ]


def test_calls_with_the_same_single_number_are_run_at_once() -> None:
    asked: list[int] = []

    def run(feeds: Tensors) -> Tensors:
        asked.append(len(feeds["x"]))
        return {"same": feeds["x"]}

    rates = (16000, 16000, 8000, 16000)
    run_batched([call(1) | {"rate": np.array(rate)} for rate in rates], batch=2, run=run)
    assert asked == [2, 1, 1]


@given(st.integers(1, 20), st.integers(1, 4))
def test_a_call_that_follows_is_made_of_the_outputs_before_it(count: int, batch: int) -> None:
    seen: list[int] = []

    def follow(number: int, outputs: Tensors) -> Tensors | None:
        seen.append(number)
        return {"state": outputs["next"]} if number + 1 < count else None

    first = {"state": np.array([1])}
    prepared = Prepared(calls=(first,), context=None, follow=follow)

    outputs = run_prepared(prepared, batch=batch, run=lambda feeds: {"next": feeds["state"] * 2})

    assert [int(output["next"][0]) for output in outputs] == [2 ** (number + 1) for number in range(count)]
    assert seen == list(range(count))


def test_calls_that_never_end_are_ended() -> None:
    prepared = Prepared(calls=({},), context=None, follow=lambda number, outputs: {})
    runs = 0

    def run(feeds: Tensors) -> Tensors:
        nonlocal runs
        runs += 1
        return {}

    with pytest.raises(BadOutput, match="isn't at its end after 4096 calls"):
        run_prepared(prepared, batch=1, run=run)
    assert runs == MAX_FOLLOWING_CALLS


def test_outputs_of_following_calls_take_a_bounded_memory() -> None:
    quarter = np.broadcast_to(np.float32(0), (MAX_FOLLOWING_BYTES // 16,))  # takes no memory
    prepared = Prepared(calls=({},), context=None, follow=lambda number, outputs: {})

    with pytest.raises(BadOutput, match=r"the outputs of 5 calls have 335544320 bytes, .* may have 268435456"):
        run_prepared(prepared, batch=1, run=lambda feeds: {"logits": quarter})


def test_calls_that_are_known_beforehand_are_batched() -> None:
    asked: list[int] = []

    def run(feeds: Tensors) -> Tensors:
        asked.append(len(feeds["x"]))
        return feeds

    run_prepared(Prepared(calls=[call(number) for number in range(5)], context=None), batch=2, run=run)
    assert asked == [2, 2, 1]
