"""Whom does a device take for its fleet, once its fleet has told it of another authority or of another address?

Rules only. Whoever has taken the fleet over, with the authority's key, can say what they like and prove it. So what a
server says never makes a device forget: an authority that one of its own has signed (RFC 4210, 4.4) is trusted beside
them, and an address is asked beside those known before. Only the publisher's offline keys can have a device forget an
authority, by the list that they signed; where there is one it decides alone (`updater/trust.py`).
"""

from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from shoal_wire.certificate import may_sign
from shoal_wire.metadata import MOST_AUTHORITIES

from shoal_agent.errors import FleetRefused


def find_vouched(
    trusted: Sequence[x509.Certificate], *, offered: Sequence[x509.Certificate], links: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, ...]:
    """The authorities among those offered that the device trusts, or that lead back to one that it does.

    Raises:
        FleetRefused: there is none.
    """
    proven = _follow_links(trusted, links)
    vouched = tuple(one for one in offered if one in trusted or any(_is_same_authority(one, link) for link in proven))
    if not vouched:
        raise FleetRefused("renewal: expected an authority of this fleet in the answer, found none that it vouches for")
    return vouched


def trust_beside(
    trusted: Sequence[x509.Certificate], vouched: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, ...]:
    """The authorities to trust from now on, where the publisher signed none: those of before, and others beside them.

    Who has the key of one of them gains nothing by another: it counts anyway, and the device forgets both once the
    publisher signs which ones count.
    """
    new = [one for one in vouched if one not in trusted]
    return (*trusted, *new[: max(0, MOST_AUTHORITIES - len(trusted))])


def remember_address(earlier: Sequence[str], *, present: str, told: str) -> tuple[tuple[str, ...], str]:
    """Where else and where to ask from now on, once a server told another address.

    Of those before, the first and the last stay known: who takes a fleet over may tell others as often as they like.
    """
    if told in ("", present):
        return tuple(earlier), present
    known = [url for url in (*earlier, present) if url]
    return tuple(dict.fromkeys((*known[:1], *known[-1:]))), told


def is_issued_by(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether one of them signed it."""
    return any(_has_signed(authority, certificate) for authority in authorities)


def _follow_links(trusted: Sequence[x509.Certificate], links: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The links that lead from a trusted authority, directly or by others."""
    proven: list[x509.Certificate] = []
    left = [link for link in links if may_sign(link)]
    while found := [link for link in left if is_issued_by(link, [*trusted, *proven])]:
        proven += found
        left = [link for link in left if link not in found]
    return proven


def _is_same_authority(authority: x509.Certificate, link: x509.Certificate) -> bool:
    return authority.subject == link.subject and _key(authority) == _key(link) and may_sign(authority)


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return may_sign(authority)


def _key(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
