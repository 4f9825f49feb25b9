"""Do waits grow, spread and start over?"""

from shoal_agent.daemon.backoff import Backoff


def test_waits_double_up_to_a_limit_within_their_upper_half() -> None:
    backoff = Backoff(first_s=1.0, most_s=5.0)
    for most_s in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert most_s / 2 <= backoff.next_s() <= most_s
    backoff.reset()
    assert backoff.next_s() <= 1.0
