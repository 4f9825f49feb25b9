"""With which key and certificate does the device connect, and whom does it trust?

At enrolment key and certificate are two files. A renewed key and its certificate are one, so that one write replaces
both and there is a pair that fits at every instant. Until its certificate is there, a new key waits in its own file.
"""

import hashlib
import ssl
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from shoal_wire.certificate import parse_certificate
from shoal_wire.errors import Malformed

from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.keys import PAIR, TLS
from shoal_agent.state import AUTHORITY, CERTIFICATE

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL (X509_VERIFY_PARAM_set_flags(3)), for which `ssl` has no name."""


class Credentials(NamedTuple):
    """Files in PEM."""

    authority: Path
    """All authorities of the fleet that the device trusts."""
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
        return Credentials(state / AUTHORITY, state / PAIR, state / PAIR)
    return Credentials(state / AUTHORITY, state / CERTIFICATE, state / TLS)


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


def make_context(credentials: Credentials, *, checks_time: bool) -> ssl.SSLContext:
    """TLS 1.3 to the fleet alone, with the device's certificate.

    `checks_time`: whether a certificate of the fleet must count at the board's present time.

    Raises:
        OSError: a file is missing, or isn't what it should be.
    """
    context = trusting(credentials.authority, checks_time=checks_time)
    context.load_cert_chain(credentials.certificate, credentials.key)
    return context


def trusting(authority: Path, *, checks_time: bool) -> ssl.SSLContext:
    """TLS 1.3 to the fleet alone, without a certificate of one's own. Raises as `make_context`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=authority)
    if not checks_time:
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | NO_CHECK_TIME)
    return context


def clock_is_plausible(lifetime: Lifetime, *, now: float) -> bool:
    """Whether the board's clock may be right: its own certificate, renewed all along, counts at that time.

    Where it doesn't, either the clock is wrong, as on a board without a battery for it, or the board was off for long.
    Then the times in the fleet's certificates tell nothing, and must not keep the board from its fleet for good.
    """
    return lifetime.holds(now)
