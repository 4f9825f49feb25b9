"""Is an address that stands in a header believed only as far as the fleet's own proxies wrote it?"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.access.client_address import ClientAddresses

PROXIES = ("10.0.0.0/8", "2001:db8:1::7")


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "found"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),
        ("10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["198.51.100.1", " 203.0.113.9 "], "203.0.113.9"),
        ("10.1.2.3", ["203.0.113.9", "10.9.9.9"], "203.0.113.9"),
        ("10.1.2.3", ["10.9.9.9"], "10.9.9.9"),
        ("10.1.2.3", ["203.0.113.9:4711"], "203.0.113.9"),
        ("2001:db8:1::7", ["[2001:db8:2::1]:4711"], "2001:db8:2::1"),
        ("::ffff:10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["203.0.113.9", "unknown"], "10.1.2.3"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("", ["203.0.113.9"], ""),
    ],
)
def test_the_last_address_that_is_no_proxy_counts(peer: str, forwarded_for: Sequence[str], found: str) -> None:
    assert ClientAddresses(PROXIES).find(peer, forwarded_for=forwarded_for) == found


@given(st.lists(st.text(max_size=40), max_size=20))
def test_without_a_proxy_nothing_is_believed(forwarded_for: list[str]) -> None:
    assert ClientAddresses().find("10.1.2.3", forwarded_for=forwarded_for) == "10.1.2.3"


@given(st.lists(st.text(max_size=40), max_size=20))
def test_who_comes_by_a_proxy_can_not_choose_their_address(made_up: list[str]) -> None:
    """The proxy adds what it saw, whatever stood there before."""
    assert ClientAddresses(PROXIES).find("10.1.2.3", forwarded_for=[*made_up, "203.0.113.9"]) == "203.0.113.9"


def test_refuses_what_is_no_network() -> None:
    with pytest.raises(ValueError, match="proxy"):
        ClientAddresses(["proxy.example"])
