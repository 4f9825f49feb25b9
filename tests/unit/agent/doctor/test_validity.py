"""Are certificate, clock and configuration judged by what they say?"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.validity import check_certificate, check_clock, check_configuration

from tests.unit.agent.doctor.sound_board import certificate


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [(-1, 9, Health.GOOD), (-9, 1, Health.WARNING), (-9, -1, Health.BAD), (1, 9, Health.BAD)],
    ids=["fresh", "not renewed", "ended", "not begun"],
)
def test_certificate_is_judged_by_its_dates(board: Board, begins: int, ends: int, expected: Health) -> None:
    raw = certificate(begins=timedelta(days=begins), ends=timedelta(days=ends))
    (board.state / "tls.crt").write_bytes(raw)
    assert check_certificate(board).health is expected


@pytest.mark.parametrize(
    ("first_ends", "renewed_ends", "expected"), [(-1, 20, Health.GOOD), (20, -1, Health.BAD)], ids=["good", "ended"]
)
def test_after_a_renewal_the_renewed_certificate_is_judged(
    board: Board, first_ends: int, renewed_ends: int, expected: Health
) -> None:
    """It lies behind its key, in one file. What enrolment wrote stays there and counts no more."""
    begins = timedelta(days=-9)
    (board.state / "tls.crt").write_bytes(certificate(begins=begins, ends=timedelta(days=first_ends)))
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    renewed = certificate(begins=begins, ends=timedelta(days=renewed_ends))
    (board.state / "keys" / "tls-pair.pem").write_bytes(key + renewed)
    assert check_certificate(board).health is expected


def test_damaged_certificate_is_wrong_and_a_missing_one_unknown(board: Board, tmp_path: Path) -> None:
    (board.state / "tls.crt").write_text("no certificate")
    assert check_certificate(board).health is Health.BAD
    assert check_certificate(replace(board, state=tmp_path / "nowhere")).health is Health.UNKNOWN


def test_clock_that_was_never_set_is_wrong(board: Board) -> None:
    assert check_clock(replace(board, now=0.0)).health is Health.BAD


def test_configuration_with_mistakes_is_told_on_one_line(board: Board) -> None:
    assert check_configuration(board).health is Health.GOOD
    found = check_configuration(replace(board, configuration_fault="a: unknown key\nb: unknown key"))
    assert (found.health, found.words) == (Health.BAD, "a: unknown key; b: unknown key")
