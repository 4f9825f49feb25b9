"""Which authorities does a device trust, once its fleet has told it of others?

Rules only. A new authority counts when one that the device trusts has signed its key (RFC 4210, 4.4), over as many
steps as it takes: the connection over which it was told proves too little, as a stolen key of a server could be behind
it. One that the fleet names no more is dropped, unless the server that said so was itself vouched for by it.
"""

from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shoal_agent.errors import FleetRefused


def follow_authorities(
    trusted: Sequence[x509.Certificate],
    *,
    offered: Sequence[x509.Certificate],
    links: Sequence[x509.Certificate],
    server: x509.Certificate,
) -> tuple[x509.Certificate, ...]:
    """The authorities to trust from now on. `server` is the certificate of who told of `offered` and `links`.

    Raises:
        FleetRefused: none of those that are offered counts.
    """
    proven = _follow_links(trusted, links)
    counted = tuple(one for one in offered if one in trusted or any(_is_same_authority(one, link) for link in proven))
    if not counted:
        raise FleetRefused("renewal: expected an authority of this fleet in the answer, found none that it vouches for")
    return counted + tuple(one for one in trusted if one not in counted and is_issued_by(server, [one]))


def is_issued_by(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether one of them signed it."""
    return any(_has_signed(authority, certificate) for authority in authorities)


def _follow_links(trusted: Sequence[x509.Certificate], links: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The links that lead from a trusted authority, directly or by others."""
    proven: list[x509.Certificate] = []
    left = [link for link in links if _may_sign(link)]
    while found := [link for link in left if is_issued_by(link, [*trusted, *proven])]:
        proven += found
        left = [link for link in left if link not in found]
    return proven


def _is_same_authority(authority: x509.Certificate, link: x509.Certificate) -> bool:
    return authority.subject == link.subject and _key(authority) == _key(link) and _may_sign(authority)


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return _may_sign(authority)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


def _key(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
