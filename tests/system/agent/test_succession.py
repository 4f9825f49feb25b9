"""Does a board follow its fleet to another authority, and nobody else?"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from shoal_agent.errors import FleetRefused
from shoal_agent.succession import find_vouched, remember_address, trust_beside
from shoal_fleet.pki.authorities import Authorities

from tests.authority_line import AuthorityLine

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class House:
    """A fleet's authorities, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.line = AuthorityLine(folder, now=NOW)

    @property
    def authorities(self) -> Authorities:
        return self.line.authorities

    def follow(self) -> None:
        self.line.follow()

    @property
    def offered(self) -> list[x509.Certificate]:
        return [parse(pem) for pem in self.authorities.trusted]

    @property
    def links(self) -> list[x509.Certificate]:
        return [parse(pem) for pem in self.authorities.links]

    def server(self) -> x509.Certificate:
        return parse(self.authorities.issue_server(["fleet.example"], now=NOW).certificate_pem.decode())


def parse(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "ours")


@pytest.fixture
def others(tmp_path: Path) -> House:
    made = House(tmp_path / "theirs")
    made.follow()
    return made


def followed(house: House, *trusted: x509.Certificate) -> tuple[x509.Certificate, ...]:
    return trust_beside(trusted, find_vouched(trusted, offered=house.offered, links=house.links))


def test_the_same_authority_stays(house: House) -> None:
    (only,) = house.offered
    assert followed(house, only) == (only,)


def test_a_successor_is_trusted_beside_the_one_that_signed_it(house: House) -> None:
    (first,) = house.offered
    house.follow()
    assert list(followed(house, first)) == house.offered


def test_none_is_forgotten_because_a_server_names_it_no_more(house: House) -> None:
    """Whoever has taken the fleet over could else have its boards follow them, and nobody else, for good."""
    (first,) = house.offered
    house.follow()
    house.line.retire(1)
    assert followed(house, first) == (first, *house.offered)
    assert first not in house.offered


def test_a_board_that_slept_through_two_changes_follows_both(house: House) -> None:
    (first,) = house.offered
    for number in (1, 2):
        house.follow()
        house.line.retire(number)
    assert followed(house, first) == (first, *house.offered)


def test_a_fleet_that_names_one_after_the_other_does_not_push_the_known_ones_out(house: House, tmp_path: Path) -> None:
    (first,) = house.offered
    many = [House(tmp_path / f"{number}").offered[0] for number in range(20)]
    kept = trust_beside([first], many)
    assert (kept[0], len(kept)) == (first, 8)
    assert trust_beside(kept, [*reversed(many)]) == kept


def test_an_authority_that_none_of_ours_signed_is_not_trusted(house: House, others: House) -> None:
    (first,) = house.offered
    assert find_vouched([first], offered=[first, *others.offered], links=others.links) == (first,)
    with pytest.raises(FleetRefused, match="none that it vouches for"):
        find_vouched([first], offered=others.offered, links=others.links)


def test_a_certificate_for_a_server_or_a_device_is_no_link(house: House) -> None:
    (first,) = house.offered
    server = house.server()
    with pytest.raises(FleetRefused):
        find_vouched([first], offered=[server], links=[server])


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        (["https://a"], ["https://a"]),
        ([""], ["https://a"]),
        (["https://b"], ["https://a", "https://b"]),
        (["https://b", "https://c"], ["https://a", "https://b", "https://c"]),
        (["https://b", "https://c", "https://d", "https://e"], ["https://a", "https://d", "https://e"]),
        (["https://b", "https://a"], ["https://a", "https://b", "https://a"]),
    ],
    ids=["same", "none", "other", "two", "many", "back"],
)
def test_the_first_address_and_the_last_one_stay_known(told: Sequence[str], asked: Sequence[str]) -> None:
    earlier: tuple[str, ...] = ()
    present = "https://a"
    for url in told:
        earlier, present = remember_address(earlier, present=present, told=url)
    assert [*earlier, present] == asked


def test_the_first_address_is_the_first_that_was_told_where_an_older_agent_enrolled() -> None:
    assert remember_address((), present="", told="https://a") == ((), "https://a")
