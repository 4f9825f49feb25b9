"""Is this a certificate that can be looked at?

A certificate that parses may still have a version that isn't one, a key of a kind that isn't known or a name that can't
be read, which shows only when it is asked for. Here it is asked for at once.
"""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from shoal_wire.errors import Malformed


def parse_certificate(pem: bytes, *, what: str) -> x509.Certificate:
    """The first certificate in PEM.

    Raises:
        Malformed: there is none, or it has no readable key, name or time.
    """
    return parse_certificates(pem, what=what)[0]


def parse_certificates(pem: bytes, *, what: str) -> list[x509.Certificate]:
    """All certificates in PEM, one at least. Raises as `parse_certificate` does."""
    try:
        found = x509.load_pem_x509_certificates(pem)
        for certificate in found:
            _look(certificate)
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise Malformed(f"{what}: expected a certificate in PEM: {error}") from None
    return found


def parse_certificate_der(der: bytes, *, what: str) -> x509.Certificate:
    """A certificate in DER. Raises as `parse_certificate` does."""
    try:
        found = x509.load_der_x509_certificate(der)
        _look(found)
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise Malformed(f"{what}: expected a certificate in DER: {error}") from None
    return found


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether it is one of an authority (RFC 5280, 4.2.1.9)."""
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


def _look(certificate: x509.Certificate) -> None:
    certificate.public_key()
    for name in (certificate.subject, certificate.issuer):
        name.rfc4514_string()
    _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc, certificate.extensions
