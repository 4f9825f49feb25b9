"""Which bytes from outside do both ends read?"""

import base64
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from shoal_wire import audit, envelope, sealed_file, topics
from shoal_wire.agent_release import TreeContents, TreeFile, parse_contents
from shoal_wire.audit import START
from shoal_wire.device_profile import parse_profile
from shoal_wire.encoding import decode, decode_struct, encode
from shoal_wire.envelope import KeySigner, parse_public_key, public_text
from shoal_wire.errors import Damaged, Malformed, Unsupported, Untrusted
from shoal_wire.grant import (
    Grant,
    GrantContext,
    RecipientKeys,
    hpke_public_text,
    make_grant,
    open_grant,
    parse_hpke_public,
)
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text, parse_hybrid_public
from shoal_wire.manifest import parse_draft, parse_manifest
from shoal_wire.messages import parse_row
from shoal_wire.metadata import read_signed_at
from shoal_wire.secret import SealedSecret, open_secret, seal_secret
from shoal_wire.token import parse_token

from tests.conformance.parser_table import Parser, text_of
from tests.vectors.examples import KINDS, example, load, to_json

ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
P256 = ec.derive_private_key(7, ec.SECP256R1())
X25519 = x25519.X25519PrivateKey.from_private_bytes(b"\2" * 32)
HYBRID = HybridPrivateKey(bytes(range(96)))
CONTENT_KEY = bytes(range(32))
DEVICE = "d-k3v7qmx2"
CONTEXT = GrantContext(release="note-events", version=2, recipient=DEVICE)
PROFILES = Path(__file__).parents[2] / "device_profiles"

_PLAIN = b'{"protocol":1}'
_ENVELOPES = [envelope.seal(_PLAIN, envelope.REPORTED, KeySigner(key)) for key in (ED25519, P256)]
_GRANTS = [
    make_grant(CONTENT_KEY, key, context=CONTEXT, ciphertext_sha256="a" * 64, counter=3)
    for key in (X25519.public_key(), HYBRID.public_key())
]
_SECRET = seal_secret("rtsp password", X25519.public_key(), device=DEVICE, name="yard", counter=1)
_ENTRY = audit.make_entry(
    START, at=5.5, actor="user:anna", action="device.revoked", subject="d", detail={"a": [1, "b"]}
)
_CHECKPOINT = audit.seal_checkpoint(START, at=5.5, signer=KeySigner(ED25519))


def _documents() -> Mapping[str, Parser]:
    """Every kind of document, once its signature was checked."""

    def reader(name: str) -> Callable[[bytes], object]:
        own = {"manifest": parse_manifest, "release_draft": parse_draft}
        own |= {"agent_manifest": parse_manifest, "agent_draft": parse_draft}
        return own.get(name) or (lambda raw: decode(raw, KINDS[name], what=name))

    return {
        f"wire document {name}": Parser(reader(name), [to_json(example(name))], (Malformed, Unsupported))
        for name in KINDS
    }


def _open_sealed(raw: bytes) -> int:
    return sum(map(len, sealed_file.unseal(sealed_file.read_parts(io.BytesIO(raw).read), CONTENT_KEY)))


def _open_grant(raw: bytes) -> bytes:
    grant = decode_struct(raw, Grant, what="grant")
    return open_grant(grant, RecipientKeys(X25519, HYBRID), context=CONTEXT)


def _open_secret(raw: bytes) -> str:
    return open_secret(decode_struct(raw, SealedSecret, what="secret"), X25519, device=DEVICE)


def _read_signed_at(raw: bytes) -> object:
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return read_signed_at(fields) if isinstance(fields, dict) else None


def _open_checkpoint(raw: bytes) -> object:
    return audit.open_checkpoint(raw, ED25519.public_key(), what="checkpoint")


def _verify(raw: bytes) -> bytes:
    envelope.signing_key_ids(raw, what="document")
    return envelope.verify(raw, envelope.REPORTED, [ED25519.public_key(), P256.public_key()], what="document")


_TREE = encode(
    TreeContents(version="0.2.0", machine="x86_64", python="3.11", files={"site-packages/a.py": TreeFile(3, "a" * 64)})
)

WIRE: Mapping[str, Parser] = {
    **_documents(),
    "wire list of a tree": Parser(parse_contents, [_TREE], (Malformed,)),
    "wire envelope": Parser(_verify, _ENVELOPES, (Malformed, Untrusted)),
    "wire row of a batch": Parser(
        parse_row, [msgspec.json.encode(row) for row in example("batch")["rows"]], (Malformed,)
    ),
    "wire public key": Parser(
        text_of(lambda text: parse_public_key(text, what="key")),
        [public_text(key.public_key()).encode() for key in (ED25519, P256)],
        (Malformed,),
    ),
    "wire HPKE key": Parser(
        text_of(lambda text: parse_hpke_public(text, what="key")),
        [hpke_public_text(X25519.public_key()).encode()],
        (Malformed,),
        refuses=[base64.b64encode(bytes(32))],
    ),
    "wire hybrid key": Parser(
        text_of(lambda text: parse_hybrid_public(text, what="key")),
        [hybrid_public_text(HYBRID.public_key()).encode()],
        (Malformed, Unsupported),
    ),
    "wire topic": Parser(text_of(topics.parse), [f"shoal/v1/{DEVICE}/up/reported".encode()], (Malformed,)),
    "wire enrolment token": Parser(
        text_of(parse_token), [case["token"].encode() for case in load("token.json")], (Malformed, Unsupported)
    ),
    "wire device profile": Parser(
        parse_profile,
        [path.read_bytes() for path in PROFILES.glob("*.toml")],
        (Malformed,),
        refuses=[b"a = " + b"[" * 5_000, b"a = " + b"{b = " * 5_000],
    ),
    "wire sealed file": Parser(
        _open_sealed,
        [
            b"".join(sealed_file.seal(bytes(40), CONTENT_KEY, suite=suite, chunk_bytes=16))
            for suite in sealed_file._SUITES
        ],
        (Malformed, Damaged),
    ),
    "wire grant": Parser(
        _open_grant, [msgspec.json.encode(grant) for grant in _GRANTS], (Malformed, Unsupported, Untrusted)
    ),
    "wire secret": Parser(_open_secret, [msgspec.json.encode(_SECRET)], (Malformed, Untrusted)),
    "wire time of metadata": Parser(_read_signed_at, [b'{"x-shoal-signed-at": 1800000000}'], ()),
    "wire audit entry": Parser(
        lambda raw: audit.follow(START, audit.parse_entry(raw, what="entry")),
        [msgspec.json.encode(_ENTRY)],
        (Malformed, Damaged),
    ),
    "wire audit checkpoint": Parser(_open_checkpoint, [_CHECKPOINT], (Malformed, Unsupported, Untrusted)),
}
