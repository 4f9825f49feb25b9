"""Are failed logins slowed down where they come from, without keeping anybody else out?"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.access.models import LoginFailures
from shoal_fleet.access.throttle import (
    FORGET_S,
    FREE_BY_ADDRESS,
    FREE_BY_NAME,
    FREE_BY_PAIR,
    LONGEST_DELAY_S,
    LONGEST_WAIT_S,
    count_attempt,
    count_visit,
    delay_after,
    forgive,
    forgive_visit,
    wait_after,
    who_tries,
)
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import TooSoon
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, close_database, make_database


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


def attempt(
    sessions: Sessions, *, at: float, name: str = "anna", address: str = "192.0.2.1", browser: str | None = None
) -> float:
    with sessions() as session, writing(session):
        return count_attempt(session, who_tries(name=name, address=address, known_browser=browser), now=at)


@given(st.integers(0, 10_000), st.integers(0, 100))
def test_the_wait_grows_and_has_an_end(failures: int, free: int) -> None:
    waits = [wait_after(failures + more, free=free) for more in range(3)]
    assert all(shorter <= longer for shorter, longer in pairwise(waits))
    assert max(waits) <= LONGEST_WAIT_S
    assert (waits[0] == 0) == (failures < free)


@given(st.integers(0, 10_000))
def test_a_name_that_others_try_is_held_up_ever_longer_and_never_for_long(failures: int) -> None:
    delays = [delay_after(failures + more) for more in range(3)]
    assert all(shorter <= longer for shorter, longer in pairwise(delays))
    assert max(delays) <= LONGEST_DELAY_S
    assert (delays[0] == 0) == (failures < FREE_BY_NAME)


def test_a_name_is_slowed_down_where_it_is_tried(sessions: Sessions) -> None:
    for _ in range(FREE_BY_PAIR):
        attempt(sessions, at=NOW)
    with pytest.raises(TooSoon, match="try again in 2 s") as caught:
        attempt(sessions, at=NOW)
    assert caught.value.wait_s == 2.0
    attempt(sessions, at=NOW, name="bert")
    attempt(sessions, at=NOW + 2)
    with pytest.raises(TooSoon, match="4 s"):
        attempt(sessions, at=NOW + 2)


def test_nobody_is_locked_out_by_those_who_try_the_name_elsewhere(sessions: Sessions) -> None:
    delays = [attempt(sessions, at=NOW, address=f"192.0.2.{number}") for number in range(40)]
    assert (delays[0], delays[-1]) == (0.0, LONGEST_DELAY_S)
    assert attempt(sessions, at=NOW, address="198.51.100.1") == LONGEST_DELAY_S


def test_a_known_browser_is_not_even_held_up(sessions: Sessions) -> None:
    for number in range(40):
        attempt(sessions, at=NOW, address=f"192.0.2.{number}")
    for number in range(FREE_BY_ADDRESS):
        attempt(sessions, at=NOW, name=f"user-{number}", address="198.51.100.1")
    assert attempt(sessions, at=NOW, address="198.51.100.1", browser="a secret") == 0.0


def test_logins_by_the_provider_are_counted_by_address_alone(sessions: Sessions) -> None:
    for _ in range(FREE_BY_ADDRESS):
        with sessions() as session, writing(session):
            count_visit(session, "192.0.2.1", now=NOW)
    with sessions() as session, writing(session), pytest.raises(TooSoon):
        count_visit(session, "192.0.2.1", now=NOW)
    attempt(sessions, at=NOW)
    with sessions() as session, writing(session):
        count_visit(session, "198.51.100.1", now=NOW)
        forgive_visit(session, "192.0.2.1")
        count_visit(session, "192.0.2.1", now=NOW)


def test_an_address_is_slowed_down_whatever_the_name(sessions: Sessions) -> None:
    for number in range(FREE_BY_ADDRESS):
        attempt(sessions, at=NOW, name=f"user-{number}")
    with pytest.raises(TooSoon):
        attempt(sessions, at=NOW, name="another")
    attempt(sessions, at=NOW, name="another", address="198.51.100.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("", "", True),
    ],
)
def test_one_machine_is_one_address(one: str, other: str, same: bool) -> None:
    found = [who_tries(name="anna", address=address).address_sha256 for address in (one, other)]
    assert (found[0] == found[1]) is same


def test_a_name_and_an_address_of_the_same_letters_are_apart() -> None:
    who = who_tries(name="192.0.2.1", address="192.0.2.1")
    assert len({who.name_sha256, who.address_sha256, who.pair_sha256}) == 3


def test_who_gets_in_is_forgiven_but_their_address_keeps_its_failures(sessions: Sessions) -> None:
    who = who_tries(name="anna", address="192.0.2.1")
    for _ in range(3):
        attempt(sessions, at=NOW)
    with sessions() as session, writing(session):
        forgive(session, who)
    with sessions() as session:
        rows = {row.subject_sha256: row.failures for row in session.scalars(select(LoginFailures))}
    assert rows == {who.address_sha256: 2}


def test_a_clock_that_was_set_back_keeps_nobody_out(sessions: Sessions) -> None:
    for _ in range(FREE_BY_PAIR):
        attempt(sessions, at=NOW)
    with pytest.raises(TooSoon, match="try again in 2 s"):
        attempt(sessions, at=NOW - 100_000)
    attempt(sessions, at=NOW - 100_000, name="bert")


def test_an_attempt_that_is_refused_unseen_is_not_counted(sessions: Sessions) -> None:
    for _ in range(FREE_BY_PAIR):
        attempt(sessions, at=NOW)
    for _ in range(5):
        with pytest.raises(TooSoon, match="2 s"):
            attempt(sessions, at=NOW)


def test_old_failures_are_forgotten_and_their_rows_go(sessions: Sessions) -> None:
    for _ in range(FREE_BY_PAIR):
        attempt(sessions, at=NOW)
    attempt(sessions, at=NOW + FORGET_S + 1, name="bert", address="198.51.100.1")
    with sessions() as session:
        assert {row.last_at for row in session.scalars(select(LoginFailures))} == {NOW + FORGET_S + 1}
