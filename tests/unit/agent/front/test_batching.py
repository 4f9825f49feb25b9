"""Do calls that are given together get the same outputs as one by one?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.batching import run_batched
from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Tensors


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
