"""What do publisher, fleet and device agree on about the signed metadata, beyond The Update Framework itself?

Releases are listed in bins: the target `<name>/<version>/manifest.json` belongs to the bin that the first bits of its
path's SHA-256 name (TAP 15). The top targets metadata lists what every device needs, and says how many bins there are.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from cryptography import x509
from msgspec import Meta

from shoal_wire.certificate import may_sign, parse_certificate
from shoal_wire.encoding import Document, ModelName, Sha256, Text, Version, decode
from shoal_wire.errors import Malformed

FLOORS_PATH = "keys/floors.json"
"""TUF target that names what was revoked. A repository without it has revoked nothing by it."""

MAX_FLOORS_BYTES = 512 << 10

AUTHORITIES_PATH = "keys/authorities.json"
"""TUF target that names whom devices trust to vouch for the fleet's servers. A repository may be without it."""

MAX_AUTHORITIES_BYTES = 64 << 10
MOST_AUTHORITIES = 8

SIGNED_AT = "x-shoal-signed-at"
"""Field of all four roles' metadata: when it was signed, in Unix seconds, by the signer's clock."""

LATEST_TIME = 250_000_000_000.0
"""As `encoding.Seconds`: later times are no dates that can be shown."""

BIN_PREFIX = "bins"
RELEASES_PER_BIN = 64
"""A bin of that many releases is about 10 KB: what a device fetches for one of them."""
MIN_BIT_LENGTH, MAX_BIT_LENGTH = 1, 12
"""Of the number of bins, which is a power of two."""


class Floors(Document, frozen=True, kw_only=True):
    """Content of the target at FLOORS_PATH: what no device may install, or go back to, any more."""

    floors: Annotated[dict[ModelName, Version], Meta(max_length=4096)] = msgspec.field(default_factory=dict)
    """Lowest version still allowed of a model. A device never lowers a floor that it has seen."""
    revoked: Annotated[tuple[Sha256, ...], Meta(max_length=4096)] = ()
    """Digests of single releases' manifests."""


class FleetAuthorities(Document, frozen=True, kw_only=True):
    """Content of the target at AUTHORITIES_PATH: the fleet's authorities, as its publisher signed them.

    A device that has seen it trusts these and no others, whatever a server of the fleet says.
    """

    certificates: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=MOST_AUTHORITIES)]
    """In PEM, one in each."""


def parse_authorities(raw: bytes) -> tuple[x509.Certificate, ...]:
    """What the target at AUTHORITIES_PATH names.

    Raises:
        Malformed, Unsupported: it is no such document, or names what is no authority.
    """
    what = f"target {AUTHORITIES_PATH}"
    named = decode(raw, FleetAuthorities, what=what, limit_bytes=MAX_AUTHORITIES_BYTES).certificates
    found = tuple(parse_certificate(pem.encode(), what=what) for pem in named)
    for one in found:
        if not may_sign(one):
            raise Malformed(f"{what}: expected certificates of authorities, found {one.subject.rfc4514_string()[:100]}")
    return found


def is_own_path(path: str) -> bool:
    """Whether a target is one that every device needs, and no release: it is listed by the top targets metadata."""
    return path.startswith("keys/") and path.count("/") == 1


def bit_length_for(releases: int, *, present: int = MIN_BIT_LENGTH) -> int:
    """How many bits of a path's digest choose its bin. There are never fewer bins than before."""
    needed = max(1, -(-releases // RELEASES_PER_BIN) - 1).bit_length()
    return min(max(needed, present, MIN_BIT_LENGTH), MAX_BIT_LENGTH)


def read_signed_at(fields: Mapping[str, object]) -> float | None:
    """When metadata says that it was signed, from its fields that TUF doesn't know; None where it doesn't say."""
    value = fields.get(SIGNED_AT)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_TIME:
        return None
    return float(value)
