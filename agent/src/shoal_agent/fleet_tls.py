"""Is the server that answers one of the fleet, whatever this board's clock says?

OpenSSL knows the system's clock alone, which may be wrong by years on a board without a battery for it. So it checks
everything but the times, and what has ended is judged here, by the time that the caller has reason to believe. When a
certificate begins isn't looked at: the authority makes none ahead of its time, so one that begins later than the
clock says only shows that the clock is behind.
"""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_wire.certificate import parse_certificate_der
from shoal_wire.errors import Malformed

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL (X509_VERIFY_PARAM_set_flags(3)), for which `ssl` has no name."""

_HAS_EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED."""


class _Socket(ssl.SSLSocket):
    """Over a socket."""

    def do_handshake(self, block: bool = False) -> None:
        """As `ssl` has it; and then the server's certificate must not have ended."""
        super().do_handshake(block)
        _check_end(self.getpeercert(binary_form=True), context=self.context)


class _Object(ssl.SSLObject):
    """Over buffers."""

    def do_handshake(self) -> None:
        """As `ssl` has it; and then the server's certificate must not have ended."""
        super().do_handshake()
        _check_end(self.getpeercert(binary_form=True), context=self.context)


class FleetContext(ssl.SSLContext):
    """TLS 1.3 to the fleet alone. Made by `trusting`."""

    sslsocket_class = _Socket
    sslobject_class = _Object
    at: float

    @classmethod
    def make(cls, *, at: float) -> Self:
        """One that trusts nobody yet."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | NO_CHECK_TIME)
        context.at = at
        return context


def trusting(authorities: Sequence[x509.Certificate], *, at: float) -> FleetContext:
    """TLS 1.3 to servers that one of these authorities vouches for, without a certificate of one's own.

    `at`: what ended before that time, in Unix seconds, doesn't count; 0 where there is no time to go by.
    """
    context = FleetContext.make(at=at)
    lasting = [one for one in authorities if one.not_valid_after_utc.timestamp() >= at]
    if lasting:
        context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in lasting))
    return context


def _check_end(der: bytes | None, *, context: ssl.SSLContext) -> None:
    assert isinstance(context, FleetContext)
    try:
        ends_at = parse_certificate_der(der or b"", what="server's certificate").not_valid_after_utc
    except Malformed as error:
        raise _refusal(str(error)) from None
    if ends_at.timestamp() < context.at:
        at = datetime.fromtimestamp(context.at, UTC)
        raise _refusal(
            f"certificate has expired: it ended at {ends_at:%Y-%m-%d %H:%M:%S} UTC, and it is {at:%Y-%m-%d %H:%M:%S} "
            "UTC at least"
        )


def _refusal(reason: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {reason}")
    error.verify_code, error.verify_message = _HAS_EXPIRED, reason
    return error
