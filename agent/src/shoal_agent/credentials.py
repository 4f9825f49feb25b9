"""With which key and certificate does the device connect, and whom does it trust?

At enrolment key and certificate are two files. A renewed key and its certificate are one, so that one write replaces
both and there is a pair that fits at every instant. Until its certificate is there, a new key waits in its own file.
"""

import hashlib
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from shoal_wire.certificate import parse_certificate, parse_certificates
from shoal_wire.errors import Malformed

from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.fleet_tls import FleetContext, trusting
from shoal_agent.keys import PAIR, TLS
from shoal_agent.state import AUTHORITY, CERTIFICATE, load_vouched_time


class Credentials(NamedTuple):
    """Files in PEM."""

    certificate: Path
    key: Path


class Lifetime(NamedTuple):
    """Of the device's present certificate."""

    serial: str
    """In hex."""
    not_before: datetime
    not_after: datetime

    def holds(self, now: float) -> bool:
        """Whether the certificate counts at a time in Unix seconds."""
        return self.not_before.timestamp() <= now <= self.not_after.timestamp()

    def due_at(self) -> float:
        """When it should be renewed, in Unix seconds: about when two thirds of its life are over.

        Spread by the serial, a random number, over a tenth of its life, so that boards that were enrolled in a row
        don't come in a row; the same after every restart.
        """
        start, end = self.not_before.timestamp(), self.not_after.timestamp()
        spread = int(hashlib.sha256(self.serial.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        return start + (end - start) * (0.60 + 0.10 * spread)


def find_credentials(files: Files, state: Path) -> Credentials:
    """The files of an enrolled device."""
    if files.size(state / PAIR):
        return Credentials(state / PAIR, state / PAIR)
    return Credentials(state / CERTIFICATE, state / TLS)


def read_lifetime(files: Files, state: Path) -> Lifetime:
    """Of the certificate with which the device connects.

    Raises:
        StateDamaged: it is missing, or no certificate.
    """
    path = find_credentials(files, state).certificate
    try:
        certificate = parse_certificate(files.read(path), what=str(path))
    except FileNotFoundError:
        raise StateDamaged(f"{path}: expected a certificate, found no file") from None
    except Malformed as error:
        raise StateDamaged(str(error)) from None
    return Lifetime(f"{certificate.serial_number:x}", certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def load_authorities(files: Files, state: Path) -> list[x509.Certificate]:
    """All authorities of the fleet that the device trusts.

    Raises:
        StateDamaged: there is none that can be read.
    """
    path = state / AUTHORITY
    try:
        return parse_certificates(files.read(path), what=str(path))
    except FileNotFoundError:
        raise StateDamaged(f"{path}: expected certificates in PEM, found no file") from None
    except Malformed as error:
        raise StateDamaged(str(error)) from None


def make_context(files: Files, state: Path, *, at: float) -> FleetContext:
    """TLS 1.3 to the fleet alone, with the device's certificate. `at`: see `fleet_tls.trusting`.

    Raises:
        StateDamaged: authority, certificate or key can't be read.
    """
    context = trusting(load_authorities(files, state), at=at)
    credentials = find_credentials(files, state)
    try:
        context.load_cert_chain(credentials.certificate, credentials.key)
    except OSError as error:
        names = f"{credentials.certificate} and {credentials.key}"
        raise StateDamaged(f"can't read certificate and key for TLS from {names}: {error}") from None
    return context


def judging_time(files: Files, state: Path, *, now: float) -> float:
    """By what time certificates of the fleet are judged, in Unix seconds. `now` is this board's clock.

    The clock may be right where the board's own certificate, renewed all along, counts at that time. Where it doesn't,
    either the clock is wrong or the board was off for long: then it tells nothing, and must not keep the board from its
    fleet for good. What the fleet's keys signed tells how late it is at least. That lies at most as far ahead as the
    publisher's signatures last, which is shorter than what a server's certificate has left.

    Raises:
        StateDamaged: there is no certificate that can be read.
    """
    clock_at = now if read_lifetime(files, state).holds(now) else 0.0
    return max(clock_at, load_vouched_time(files, state))
