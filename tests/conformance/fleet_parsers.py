"""Which bytes from outside does the fleet read: of boards, of publishers, of operators?"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import BaseModel, ValidationError
from securesystemslib.signer import CryptoSigner
from shoal_fleet.access.views import NewApiToken, NewUser
from shoal_fleet.devices.routes import NewName
from shoal_fleet.enrolment.routes import NewToken
from shoal_fleet.enrolment.rules import read_request
from shoal_fleet.errors import Conflict, Refused, TooLarge
from shoal_fleet.keys import FleetKeys
from shoal_fleet.labels.routes import LabelChanges
from shoal_fleet.pki.certificates import parse_csr
from shoal_fleet.pki.errors import BadCsr
from shoal_fleet.releases.routes import NewRelease
from shoal_fleet.rollouts.policy_routes import NewPolicy
from shoal_fleet.rollouts.routes import NewRollout
from shoal_fleet.targeting.service import check_text
from shoal_fleet.telemetry.service import open_batch
from shoal_fleet.trust import rules
from shoal_fleet.trust.views import Ceremony, TrustUpdate
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.errors import Malformed, Unsupported, Untrusted
from shoal_wire.grant import hpke_public_text
from shoal_wire.hybrid_key import hybrid_public_text
from shoal_wire.messages import EnrolmentRequest
from shoal_wire.metadata import Floors
from tuf.api.metadata import Metadata

from tests.conformance.parser_table import Parser, text_of
from tests.conformance.wire_parsers import DEVICE, HYBRID, P256, X25519
from tests.publisher import Publisher
from tests.vectors.examples import example, to_json

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _text(seed: int) -> str:
    return public_text(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).public_key())


def _signer(seed: int) -> CryptoSigner:
    return CryptoSigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


KEYS = FleetKeys(
    snapshot=_text(3),
    timestamp=_text(4),
    assignment=_text(5),
    hpke=hpke_public_text(X25519.public_key()),
    hybrid=hybrid_public_text(HYBRID.public_key()),
)
PUBLISHER = Publisher(msgspec.to_builtins(KEYS), now=NOW)
PUBLISHER.root_key, PUBLISHER.targets_key = _signer(6), _signer(7)
PUBLISHER.root = PUBLISHER.make_root()
ROOT = PUBLISHER.root
FLOORS = Floors(floors={"notes": 3}, revoked=("a" * 64,))


def _make_csr() -> bytes:
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .sign(P256, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def _read_request(raw: bytes) -> object:
    """What a request says, signed by the key of the board that this is about."""
    return read_request(envelope.seal(raw, envelope.ENROLMENT, KeySigner(P256)))


def _open_batch(raw: bytes) -> object:
    sealed = envelope.seal(raw, envelope.BATCH, KeySigner(P256))
    return open_batch(sealed, device_id=DEVICE, identity_key=P256.public_key())


def _resigned(raw: bytes, signer: CryptoSigner) -> bytes:
    """Metadata signed by the publisher's own key as it is: a signature is no promise that it makes sense."""
    try:
        metadata: Metadata[Any] = Metadata.from_bytes(raw)
        metadata.sign(signer)
        return metadata.to_bytes()
    except Exception:
        return raw


def _check_root(raw: bytes) -> object:
    return rules.check_first_root(_resigned(raw, PUBLISHER.root_key), fleet=KEYS, now=NOW.timestamp())


def _follow_root(raw: bytes) -> object:
    return rules.follow_roots(ROOT, [_resigned(raw, PUBLISHER.root_key)], now=NOW.timestamp())


def _check_targets(raw: bytes) -> object:
    signed = _resigned(raw, PUBLISHER.targets_key)
    return rules.check_targets(signed, root=ROOT, version=1, now=NOW.timestamp())


def _next_root() -> bytes:
    PUBLISHER.root.version += 1
    try:
        return PUBLISHER.signed_root()
    finally:
        PUBLISHER.root.version -= 1


def _body(model: type[BaseModel]) -> Callable[[bytes], object]:
    return model.model_validate_json


_REQUEST = encode(
    EnrolmentRequest(
        name="yard",
        profile="generic-x86",
        agent_version="0.1.0",
        identity_key=public_text(P256.public_key()),
        hpke_key=hpke_public_text(X25519.public_key()),
        hybrid_key=hybrid_public_text(HYBRID.public_key()),
        csr=_make_csr().decode(),
    )
)
_METADATA_ERRORS = (Malformed, Unsupported, Untrusted, Refused, TooLarge, Conflict)

BODIES: Mapping[str, tuple[type[BaseModel], object]] = {
    "trust": (Ceremony, {**PUBLISHER.ceremony()}),
    "trust update": (TrustUpdate, {"roots": ["e30="], "targets": "e30=", "bins": {"bins-0": "e30="}}),
    "release": (
        NewRelease,
        {
            "targets": "e30=",
            "manifest": "e30=",
            "grants": [{"ciphertext_sha256": "a" * 64, "counter": 1, "sealed_key": "AA==", "suite": "x25519"}],
        },
    ),
    "rollout": (
        NewRollout,
        {"release": "notes", "version": 2, "devices": ["all"], "probation": {"answers": 3, "p95_ratio": 1.5}},
    ),
    "policy": (NewPolicy, {"approvals": 1}),
    "enrolment token": (NewToken, {"name": "yard 3", "ttl_s": 60}),
    "device": (NewName, {"name": "yard 3"}),
    "labels": (LabelChanges, {"labels": {"site": "north", "floor": None}}),
    "user": (
        NewUser,
        {"name": "anna", "password": "correct horse", "roles": [{"project": "*", "role": "viewer"}]},
    ),
    "API token": (NewApiToken, {"name": "ci", "project": "*", "roles": ["releaser"], "ttl_s": 60}),
}

FLEET: Mapping[str, Parser] = {
    "fleet expression": Parser(
        text_of(check_text),
        [
            b'labels.site == "north" && !(runs["notes"] < 3 || silent_s / 60 > 5)',
            b'name.startsWith("a") && id in ["b"]',
        ],
        (Refused,),
        refuses=[b"||".join([b"1==1"] * 300), b"+".join([b"1"] * 900), b"!" * 1999],
    ),
    "fleet enrolment request": Parser(_read_request, [_REQUEST], (Malformed, Unsupported, Untrusted, BadCsr)),
    "fleet enrolment envelope": Parser(
        read_request,
        [envelope.seal(_REQUEST, envelope.ENROLMENT, KeySigner(P256))],
        (Malformed, Unsupported, Untrusted, BadCsr),
    ),
    "fleet signing request": Parser(parse_csr, [_make_csr()], (BadCsr,)),
    "fleet batch": Parser(_open_batch, [to_json(example("batch"))], (Malformed, Unsupported, Untrusted)),
    "fleet first root": Parser(_check_root, [PUBLISHER.signed_root()], _METADATA_ERRORS),
    "fleet next root": Parser(_follow_root, [_next_root()], _METADATA_ERRORS),
    "fleet targets": Parser(_check_targets, [PUBLISHER.signed_targets()], _METADATA_ERRORS),
    "fleet assignment keys": Parser(
        lambda raw: rules.check_assignment_keys(raw, fleet=KEYS, allowed=(KEYS.assignment,)),
        [PUBLISHER.assignment_keys],
        _METADATA_ERRORS,
    ),
    "fleet floors": Parser(lambda raw: rules.check_floors(raw, present=FLOORS), [encode(FLOORS)], _METADATA_ERRORS),
    **{
        f"fleet body of a {name}": Parser(_body(model), [json.dumps(seed).encode()], (ValidationError,))
        for name, (model, seed) in BODIES.items()
    },
}
