"""Is a model only loaded where it fits, and told with both numbers where it doesn't?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.cgroup import MemoryLimit
from shoal_agent.front.admission import NoRoom, Peak, Room, Swap, choose_swap, predict_peak, watermark_bytes

MB = 1_000_000
NEEDS_300 = (Peak(300 * MB, is_measured=True),)


def test_measured_peak_goes_before_an_estimate() -> None:
    assert predict_peak(measured_bytes=5, file_bytes=[1000]) == Peak(5, is_measured=True)


def test_estimate_covers_what_onnx_runtime_took() -> None:
    """Measured: 61 MB without weights, 258 MB with 67 MB of them, 848 MB with 268 MB of them."""
    for file_bytes, seen_kb in ((129, 61_676), (67_108_970, 258_280), (268_435_565, 847_916)):
        assert predict_peak(measured_bytes=0, file_bytes=[file_bytes]).needed_bytes > seen_kb * 1024


@pytest.mark.parametrize(
    ("free", "idle", "serving", "way"),
    [
        (300, 0, 100, Swap.BESIDE),
        (299, 1, 100, Swap.BESIDE_WITHOUT_IDLE),
        (299, 0, 1, Swap.INSTEAD),
        (100, 100, 100, Swap.INSTEAD),
        (300, 0, None, Swap.BESIDE),
    ],
)
def test_room_is_made_only_where_it_must_be(free: int, idle: int, serving: int | None, way: Swap) -> None:
    room = Room(free * MB)
    serving_bytes = None if serving is None else serving * MB
    found = choose_swap(
        NEEDS_300, room=room, idle_bytes=idle * MB, serving_bytes=serving_bytes, policy="availability-preserving"
    )
    assert found is way


def test_resource_preserving_unloads_first_even_where_both_fit() -> None:
    for serving_bytes, way in ((1, Swap.INSTEAD), (None, Swap.BESIDE)):
        room = Room(900 * MB)
        found = choose_swap(
            NEEDS_300, room=room, idle_bytes=0, serving_bytes=serving_bytes, policy="resource-preserving"
        )
        assert found is way


def test_refusal_names_what_is_needed_and_what_there_is() -> None:
    room = Room(200 * MB, (MemoryLimit(1000 * MB, 100 * MB), MemoryLimit(500 * MB, 450 * MB)))
    with pytest.raises(NoRoom) as refused:
        choose_swap(NEEDS_300, room=room, idle_bytes=0, serving_bytes=20 * MB, policy="availability-preserving")
    for words in ("needs 300 MB (measured)", "200 MB are available", "50 MB are left", "limit of 500 MB", "20 MB more"):
        assert words in str(refused.value)


@given(
    needed=st.integers(1, 1000),
    free=st.integers(0, 1000),
    idle=st.integers(0, 300),
    serving=st.none() | st.integers(0, 300),
    policy=st.sampled_from(["availability-preserving", "resource-preserving"]),
)
def test_never_admits_more_than_there_is(needed: int, free: int, idle: int, serving: int | None, policy: str) -> None:
    gained = {Swap.BESIDE: 0, Swap.BESIDE_WITHOUT_IDLE: idle, Swap.INSTEAD: idle + (serving or 0)}
    try:
        way = choose_swap(
            (Peak(needed, is_measured=True),),
            room=Room(free),
            idle_bytes=idle,
            serving_bytes=serving,
            policy=policy,  # type: ignore[arg-type]
        )
    except NoRoom:
        assert needed > free + idle + (serving or 0)
    else:
        assert needed <= free + gained[way]
        assert way is not Swap.INSTEAD or serving is not None


@given(st.integers(0, 10**12))
def test_worker_may_grow_by_something_before_it_is_replaced(warm_bytes: int) -> None:
    assert watermark_bytes(warm_bytes) >= warm_bytes + (64 << 20)
