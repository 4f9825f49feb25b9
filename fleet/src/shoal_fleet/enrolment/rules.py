"""Is this a request by someone who holds the keys that it names?

Rules only. The request is signed by one of the keys inside it: that proves possession and nothing else. Who may enrol
is decided by the token.
"""

import hashlib
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from shoal_wire import envelope
from shoal_wire.encoding import canonical, decode, decode_struct
from shoal_wire.grant import parse_hpke_public
from shoal_wire.hybrid_key import parse_hybrid_public
from shoal_wire.messages import EnrolmentRequest

from shoal_fleet.devices.service import parse_identity_key
from shoal_fleet.pki.certificates import parse_csr

MAX_REQUEST_BYTES = 64 << 10

_WHAT = "enrolment request"


class Claim(NamedTuple):
    """A request whose signature was verified, and the digest that stands for its keys."""

    request: EnrolmentRequest
    keys_sha256: str


def read_request(raw: bytes) -> Claim:
    """Verify and parse a signed enrolment request.

    Raises:
        Malformed, Unsupported: not an enrolment request.
        Untrusted: not signed by the identity key that it names.
        BadCsr: its signing request isn't one for a P-256 key.
    """
    key = parse_identity_key(_claimed_identity_key(raw))
    payload = envelope.verify(raw, envelope.ENROLMENT, [key], what=_WHAT, limit_bytes=MAX_REQUEST_BYTES)
    request = decode(payload, EnrolmentRequest, what=_WHAT, limit_bytes=MAX_REQUEST_BYTES)
    parse_hpke_public(request.hpke_key, what=f"{_WHAT}: HPKE key")
    if request.hybrid_key is not None:
        parse_hybrid_public(request.hybrid_key, what=f"{_WHAT}: hybrid key")
    tls_key = parse_csr(request.csr.encode())
    tls_bytes = tls_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    keys = ["shoal/enrolment/v1", request.identity_key, request.hpke_key, hashlib.sha256(tls_bytes).hexdigest()]
    if request.hybrid_key is not None:
        keys.append(request.hybrid_key)
    return Claim(request, hashlib.sha256(canonical(list(keys))).hexdigest())


class _Outside(msgspec.Struct, frozen=True):
    payload: bytes


class _Inside(msgspec.Struct, frozen=True):
    identity_key: str


def _claimed_identity_key(raw: bytes) -> str:
    """The key that the request names. Nothing else is taken from it before the signature was verified by that key."""
    outside = decode_struct(raw, _Outside, what=_WHAT, limit_bytes=2 * MAX_REQUEST_BYTES)
    return decode_struct(outside.payload, _Inside, what=_WHAT, limit_bytes=MAX_REQUEST_BYTES).identity_key
