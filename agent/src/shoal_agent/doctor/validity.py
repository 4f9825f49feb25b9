"""Do this board's clock, certificate and configuration count?"""

import ctypes
from datetime import UTC, datetime

from shoal_wire.certificate import parse_certificate
from shoal_wire.errors import Malformed

from shoal_agent.credentials import find_credentials
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Finding, Health
from shoal_agent.files import DiskFiles

EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock before this was never set: this program is younger."""
CERTIFICATE_REST = 0.2
"""Part of a certificate's life below which it should have been renewed."""

_UNSYNCHRONISED = 0x0040  # STA_UNSYNC of adjtimex(2)
_TIMEX_STATUS_AT = 40  # of `status` in struct timex where a long has 64 bits
_TIMEX_BYTES = 208


def check_configuration(board: Board) -> Finding:
    """The agent's file says what it may say."""
    if board.configuration_fault:
        return Finding(Health.BAD, "; ".join(board.configuration_fault.splitlines()), "correct the file")
    return Finding(Health.GOOD, "it can be read")


def check_certificate(board: Board) -> Finding:
    """The device's certificate counts now and for a while."""
    path = find_credentials(DiskFiles(), board.state).certificate  # the renewed one, where there is one
    try:
        certificate = parse_certificate(path.read_bytes(), what=str(path))
    except FileNotFoundError:
        return Finding(Health.UNKNOWN, "there is no certificate yet")
    except Malformed:
        return Finding(Health.BAD, f"{path} isn't a certificate", "enrol anew, with shoal-agent enrol")
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if board.now > end:
        return Finding(
            Health.BAD, f"it ended on {until}", "let the agent reach its fleet, which renews it; see shoal-agent status"
        )
    if board.now < begin:
        return Finding(
            Health.BAD, f"it begins on {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", "set the board's clock"
        )
    if end - board.now < CERTIFICATE_REST * (end - begin):
        return Finding(
            Health.WARNING, f"it ends on {until} and should have been renewed", "let the agent reach its fleet"
        )
    return Finding(Health.GOOD, f"it ends on {until}")


def check_clock(board: Board) -> Finding:
    """The clock was set, and is kept right."""
    if board.now < EARLIEST.timestamp():
        now = datetime.fromtimestamp(board.now, UTC)
        return Finding(Health.BAD, f"it says {now:%Y-%m-%d}, which is before this program", "set the board's clock")
    status = _clock_status()
    if status is None:
        return Finding(Health.UNKNOWN, "the kernel doesn't say whether it is synchronised")
    if status & _UNSYNCHRONISED:
        return Finding(
            Health.WARNING, "it isn't synchronised", "run an NTP client, such as systemd-timesyncd or chrony"
        )
    return Finding(Health.GOOD, "it is synchronised")


def _clock_status() -> int | None:
    """The clock's status bits, which reading doesn't change; None where the kernel gives none."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.sizeof(ctypes.c_long) != 8 or ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
        return None
    return int.from_bytes(buffer.raw[_TIMEX_STATUS_AT : _TIMEX_STATUS_AT + 4], "little")
