"""Does a board follow its fleet to another authority, and nobody else?"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from shoal_agent.errors import FleetRefused
from shoal_agent.succession import follow_authorities
from shoal_fleet.pki.authorities import Authorities, add_successor, retire
from shoal_fleet.pki.authority import Authority

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class House:
    """A fleet's authorities, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        Authority.create(folder, now=NOW)

    @property
    def authorities(self) -> Authorities:
        return Authorities.load(self.folder)

    def follow(self) -> None:
        add_successor(self.folder, now=NOW)

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


def test_the_same_authority_stays(house: House) -> None:
    (only,) = house.offered
    assert follow_authorities([only], offered=[only], links=[], server=house.server()) == (only,)


def test_a_successor_is_trusted_beside_the_one_that_signed_it(house: House) -> None:
    (first,) = house.offered
    house.follow()
    followed = follow_authorities([first], offered=house.offered, links=house.links, server=house.server())
    assert list(followed) == house.offered


def test_one_that_was_retired_is_dropped(house: House) -> None:
    (first,) = house.offered
    house.follow()
    retire(house.folder, 1)
    followed = follow_authorities([first], offered=house.offered, links=house.links, server=house.server())
    assert list(followed) == house.offered
    assert first not in followed


def test_a_board_that_slept_through_two_changes_follows_both(house: House) -> None:
    (first,) = house.offered
    for number in (1, 2):
        house.follow()
        retire(house.folder, number)
    followed = follow_authorities([first], offered=house.offered, links=house.links, server=house.server())
    assert list(followed) == house.offered


def test_an_authority_that_none_of_ours_signed_is_not_trusted(house: House, others: House) -> None:
    (first,) = house.offered
    mixed = follow_authorities([first], offered=[first, *others.offered], links=others.links, server=house.server())
    assert mixed == (first,)
    with pytest.raises(FleetRefused, match="none that it vouches for"):
        follow_authorities([first], offered=others.offered, links=others.links, server=house.server())


def test_a_certificate_for_a_server_or_a_device_is_no_link(house: House) -> None:
    (first,) = house.offered
    server = house.server()
    with pytest.raises(FleetRefused):
        follow_authorities([first], offered=[server], links=[server], server=server)


def test_the_authority_of_the_server_that_left_it_out_is_kept(house: House) -> None:
    (first,) = house.offered
    server_by_first = house.server()
    house.follow()
    followed = follow_authorities([first], offered=house.offered[1:], links=house.links, server=server_by_first)
    assert set(followed) == {first, house.offered[1]}
