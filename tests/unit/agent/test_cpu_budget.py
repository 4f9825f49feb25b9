"""Do all workers together stay within what the kernel gives, and does each get its part?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.cpu_budget import Processors, budget, share


@pytest.mark.parametrize(
    ("allowed", "quotas", "configured", "threads"),
    [
        (4, (), 0, 4),
        (4, (), 2, 2),
        (4, (), 9, 4),
        (4, (1.5,), 0, 1),
        (4, (1.5,), 2, 2),
        (4, (2.5, 3.0), 0, 2),
        (2, (8.0,), 0, 2),
        (4, (0.2,), 0, 1),
        (4, (0.2,), 3, 1),
    ],
)
def test_budget_is_the_tightest_of_processors_and_quotas(
    allowed: int, quotas: tuple[float, ...], configured: int, threads: int
) -> None:
    assert budget(Processors(allowed, quotas), configured=configured) == threads


@pytest.mark.parametrize(
    ("threads", "wanted", "shares"),
    [
        (4, (), ()),
        (4, (0,), (4,)),
        (4, (0, 0), (2, 2)),
        (4, (0, 0, 0), (2, 1, 1)),
        (2, (0, 0, 0, 0), (1, 1, 1, 1)),
        (4, (3, 0), (3, 1)),
        (4, (3, 0, 0), (3, 1, 1)),
        (2, (8,), (2,)),
    ],
)
def test_shares(threads: int, wanted: tuple[int, ...], shares: tuple[int, ...]) -> None:
    assert share(threads, wanted=wanted) == shares


@given(threads=st.integers(1, 64), workers=st.integers(1, 64))
def test_equal_shares_use_the_budget_up_and_differ_by_one_at_most(threads: int, workers: int) -> None:
    shares = share(threads, wanted=(0,) * workers)
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == max(threads, workers)
