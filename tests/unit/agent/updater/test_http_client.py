"""Is a server that sends too slowly told from one that is only slow?"""

from shoal_agent.updater.http_client import RateWindow


def test_rate_is_judged_at_the_end_of_a_window() -> None:
    window = RateWindow(now=0.0, minimum_bytes_s=100, window_s=10.0)
    assert not window.is_too_slow(1, now=9.9)
    assert window.is_too_slow(1, now=10.0)


def test_enough_bytes_in_every_window_are_never_too_slow() -> None:
    window = RateWindow(now=0.0, minimum_bytes_s=100, window_s=10.0)
    assert not any(window.is_too_slow(500, now=5.0 * tick) for tick in range(1, 100))


def test_fast_start_does_not_pay_for_a_slow_rest() -> None:
    window = RateWindow(now=0.0, minimum_bytes_s=100, window_s=10.0)
    assert not window.is_too_slow(1_000_000, now=10.0)
    assert window.is_too_slow(10, now=20.0)
