"""Is a certificate due in time, at a moment of its own, and is a wrong clock seen for one?"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.credentials import (
    Credentials,
    Lifetime,
    find_credentials,
    judging_time,
    make_context,
    read_lifetime,
)
from shoal_agent.enrolment import make_csr
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.keys import PAIR, TLS, make_missing_keys
from shoal_agent.state import AUTHORITY, CERTIFICATE, TIME
from shoal_fleet.pki.authority import Authority

START = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def lifetime(serial: str, *, days: int = 30) -> Lifetime:
    return Lifetime(serial, START, START + days * DAY)


@given(serial=st.integers(1, 2**159), days=st.integers(1, 730))
def test_it_is_due_when_about_two_thirds_are_over(serial: int, days: int) -> None:
    one = lifetime(f"{serial:x}", days=days)
    part = (one.due_at() - START.timestamp()) / (days * 86400)
    assert 0.6 <= part <= 0.7
    assert one.due_at() == one.due_at()


def test_boards_that_were_enrolled_in_a_row_do_not_come_in_a_row() -> None:
    due = sorted(lifetime(f"{serial:x}").due_at() for serial in range(1, 101))
    spread = timedelta(seconds=due[-1] - due[0])
    assert spread > 2.5 * DAY
    busiest = max(sum(at <= other < at + 3600 for other in due) for at in due)
    assert busiest < 15, "at most a few of a hundred boards within an hour"


class Board:
    """A state folder with a certificate of thirty days."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.create(folder / "authority", key=ec.generate_private_key(ec.SECP256R1()), now=START)
        self.state = folder / "state"
        keys = make_missing_keys(DiskFiles(), self.state)
        self.pem = authority.issue_client(make_csr(keys.tls).encode(), device_id="d-board", now=START, valid_days=30)
        DiskFiles().write(self.state / AUTHORITY, authority.certificate_pem)
        DiskFiles().write(self.state / CERTIFICATE, self.pem)

    def judges_at(self, now: datetime | float, *, vouched: datetime | None = None) -> float:
        if vouched is not None:
            (self.state / TIME).write_text(f'{{"format":1,"offline_at":9e9,"online_at":{vouched.timestamp()}}}')
        at = now if isinstance(now, float) else now.timestamp()
        return judging_time(DiskFiles(), self.state, now=at)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


@pytest.mark.parametrize("days", [0, 29])
def test_the_clock_is_believed_within_the_own_certificates_life(board: Board, days: int) -> None:
    assert board.judges_at(START + days * DAY) == (START + days * DAY).timestamp()


@pytest.mark.parametrize("now", [0.0, (START - DAY).timestamp(), (START + 31 * DAY).timestamp(), 4e9])
def test_outside_of_it_only_what_the_fleet_signed_tells_the_time(board: Board, now: float) -> None:
    assert board.judges_at(now) == 0.0
    assert board.judges_at(now, vouched=START + 3 * DAY) == (START + 3 * DAY).timestamp()


def test_the_later_of_clock_and_signed_time_counts_and_not_what_the_publisher_dated(board: Board) -> None:
    assert board.judges_at(START + DAY, vouched=START + 3 * DAY) == (START + 3 * DAY).timestamp()
    assert board.judges_at(START + 5 * DAY, vouched=START + 3 * DAY) == (START + 5 * DAY).timestamp()
    (board.state / TIME).write_text("nonsense")
    assert board.judges_at(START + 5 * DAY) == (START + 5 * DAY).timestamp()


def test_the_renewed_pair_counts_before_what_enrolment_wrote(board: Board) -> None:
    files = DiskFiles()
    assert find_credentials(files, board.state) == Credentials(board.state / CERTIFICATE, board.state / TLS)
    files.write(board.state / PAIR, (board.state / TLS).read_bytes() + board.pem)
    assert find_credentials(files, board.state) == (board.state / PAIR, board.state / PAIR)
    make_context(files, board.state, at=START.timestamp())
    assert read_lifetime(files, board.state).holds(START.timestamp())


def test_a_missing_or_damaged_certificate_is_told(board: Board) -> None:
    (board.state / CERTIFICATE).write_bytes(b"nonsense")
    with pytest.raises(StateDamaged, match="expected a certificate in PEM"):
        read_lifetime(DiskFiles(), board.state)
    with pytest.raises(StateDamaged, match=r"can't read certificate and key for TLS from .*tls\.crt"):
        make_context(DiskFiles(), board.state, at=0.0)
    (board.state / CERTIFICATE).unlink()
    with pytest.raises(StateDamaged, match="found no file"):
        read_lifetime(DiskFiles(), board.state)
    (board.state / AUTHORITY).unlink()
    with pytest.raises(StateDamaged, match=r"authority\.pem: expected certificates"):
        make_context(DiskFiles(), board.state, at=0.0)
