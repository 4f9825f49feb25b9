"""Is a certificate due in time, at a moment of its own, and is a wrong clock seen for one?"""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.credentials import (
    Credentials,
    Lifetime,
    clock_is_plausible,
    find_credentials,
    make_context,
    read_lifetime,
)
from shoal_agent.enrolment import make_csr
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.keys import PAIR, TLS, make_missing_keys
from shoal_agent.state import AUTHORITY, CERTIFICATE
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


@pytest.mark.parametrize(
    ("at", "is_plausible"),
    [(START, True), (START + 29 * DAY, True), (START - DAY, False), (START + 31 * DAY, False), (None, False)],
)
def test_a_clock_outside_of_the_own_certificates_life_is_not_believed(at: datetime | None, is_plausible: bool) -> None:
    now = 0.0 if at is None else at.timestamp()
    assert clock_is_plausible(lifetime("1"), now=now) == is_plausible


class Board:
    """A state folder, and its fleet's authority."""

    def __init__(self, folder: Path) -> None:
        self.now = datetime.now(UTC)
        self.authority = Authority.create(folder / "authority", now=self.now)
        self.state = folder / "state"
        keys = make_missing_keys(DiskFiles(), self.state)
        self.pem = self.authority.issue_client(
            make_csr(keys.tls).encode(), device_id="d-board", now=self.now, valid_days=30
        )
        DiskFiles().write(self.state / AUTHORITY, self.authority.certificate_pem)
        DiskFiles().write(self.state / CERTIFICATE, self.pem)

    def handshake(self, *, server_days_ago: int, checks_time: bool) -> None:
        """With a server whose certificate was made for one day, so many days ago. Raises ssl.SSLError."""
        made = self.authority.issue_server(["127.0.0.1"], now=self.now - server_days_ago * DAY, valid_days=1)
        chain = self.state / "server.pem"
        chain.write_bytes(made.certificate_pem + made.key_pem)
        listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        listening.load_cert_chain(chain)
        connecting = make_context(find_credentials(DiskFiles(), self.state), checks_time=checks_time)
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            connecting.wrap_bio(down, up, server_hostname="127.0.0.1"),
            listening.wrap_bio(up, down, server_side=True),
        ]
        for _ in range(4):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_a_server_whose_certificate_has_ended_is_refused_unless_the_clock_is_not_believed(board: Board) -> None:
    board.handshake(server_days_ago=0, checks_time=True)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        board.handshake(server_days_ago=9, checks_time=True)
    board.handshake(server_days_ago=9, checks_time=False)


def test_without_a_believed_clock_another_authority_is_refused_all_the_same(board: Board, tmp_path: Path) -> None:
    board.authority = Authority.create(tmp_path / "foreign", now=board.now)
    with pytest.raises(ssl.SSLCertVerificationError):
        board.handshake(server_days_ago=9, checks_time=False)


def test_the_renewed_pair_counts_before_what_enrolment_wrote(board: Board) -> None:
    files = DiskFiles()
    assert find_credentials(files, board.state) == Credentials(
        board.state / AUTHORITY, board.state / CERTIFICATE, board.state / TLS
    )
    files.write(board.state / PAIR, (board.state / TLS).read_bytes() + board.pem)
    assert find_credentials(files, board.state)[1:] == (board.state / PAIR, board.state / PAIR)
    make_context(find_credentials(files, board.state), checks_time=True)
    assert read_lifetime(files, board.state).holds(board.now.timestamp())


def test_a_missing_or_damaged_certificate_is_told(board: Board) -> None:
    (board.state / CERTIFICATE).write_bytes(b"nonsense")
    with pytest.raises(StateDamaged, match="expected a certificate in PEM"):
        read_lifetime(DiskFiles(), board.state)
    (board.state / CERTIFICATE).unlink()
    with pytest.raises(StateDamaged, match="found no file"):
        read_lifetime(DiskFiles(), board.state)
