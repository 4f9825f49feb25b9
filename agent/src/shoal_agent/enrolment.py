"""How does a board become a device of a fleet, with one token, so that power may go at any instant?

Keys are made and on the disk first. The authority's certificate is fetched and must have the digest that the token
names; from then on only a server with its certificate is talked to. The answer is checked in full before any of it is
written, device.json last. The fleet gives the same keys with the same token the same answer, so all may be done again.
"""

import base64
import contextlib
import hashlib
import ssl
import time
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID
from shoal_wire import envelope, paths
from shoal_wire.certificate import parse_certificate, parse_certificates
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.errors import Malformed, WireError
from shoal_wire.grant import hpke_public_text
from shoal_wire.hybrid_key import hybrid_public_text
from shoal_wire.messages import EnrolmentRequest, EnrolmentResponse
from shoal_wire.token import EnrolmentToken, parse_token

from shoal_agent.errors import EnrolmentRefused, FleetRefused, NotEnrolled, WrongServer
from shoal_agent.files import Files
from shoal_agent.fleet_https import Question, ask
from shoal_agent.fleet_tls import trusting
from shoal_agent.keys import NEXT_TLS, PAIR, DeviceKeys, keep_identity_in_token, make_missing_keys
from shoal_agent.state import AUTHORITIES, AUTHORITY, CERTIFICATE, DEVICE, TUF_ROOT, Device, load_device

MAX_AUTHORITY_BYTES = 64 << 10
MAX_RESPONSE_BYTES = 1 << 20


class Label(NamedTuple):
    """How the owner calls the board, and what its profile wants; the fleet may change the name later."""

    name: str
    profile: str
    has_hybrid: bool = False
    """Content keys are to be sealed to a hybrid key (`shoal_wire.hybrid_key`), which the board offers."""
    identity_key: str = ""
    """URI of the identity key in a token or TPM (RFC 7512); empty: a file."""


def enrol(files: Files, state: Path, *, token: str, label: Label, agent_version: str) -> Device:
    """Make the board whose state folder this is a device; returns which one. May be run again at any time.

    Raises:
        Malformed: no token.
        EnrolmentRefused: by the fleet, by this board's checks of its answer, or the board is a device already.
        FleetUnreachable: try again later, with the same token.
        StateDamaged: a key or device.json can't be read.
        WrongConfiguration, IdentityUnavailable: the identity key is to be in a token, and can't be made there.
    """
    parsed = parse_token(token)
    secret_sha256 = hashlib.sha256(parsed.secret.encode()).hexdigest()
    with contextlib.suppress(NotEnrolled):
        return _already(load_device(files, state), secret_sha256=secret_sha256, state=state)
    if label.identity_key:
        keep_identity_in_token(files, state, label.identity_key)
    keys = make_missing_keys(files, state, with_hybrid=label.has_hybrid)
    authority = _fetch_authority(parsed)
    request = _make_request(keys, label=label, agent_version=agent_version)
    body = envelope.seal(request, envelope.ENROLMENT, KeySigner(keys.identity))
    question = Question("POST", paths.ENROL, body=body, bearer=parsed.secret)
    raw = _ask(parsed, question, context=trusting([authority], at=time.time()), limit_bytes=MAX_RESPONSE_BYTES)
    response = _parse_response(raw)
    root = check_response(response, token=parsed, authority=authority, tls_key=keys.tls.public_key())
    device = Device(
        device=response.device,
        name=label.name,
        profile=label.profile,
        broker_host=response.broker_host,
        broker_port=response.broker_port,
        devices_url=response.devices_url,
        token_sha256=secret_sha256,
        operators_url=parsed.url,
    )
    for left_over in (PAIR, NEXT_TLS, AUTHORITIES):
        files.remove(state / left_over)
    files.write(state / AUTHORITY, authority.public_bytes(serialization.Encoding.PEM))
    files.write(state / CERTIFICATE, response.certificate.encode())
    files.write(state / TUF_ROOT, root)
    files.write(state / DEVICE, encode(device))
    return device


def check_response(
    response: EnrolmentResponse, *, token: EnrolmentToken, authority: x509.Certificate, tls_key: PublicKeyTypes
) -> bytes:
    """Make sure that an answer is for this board and by the authority; returns the TUF root's bytes.

    Raises:
        EnrolmentRefused: a digest, key, name or signature isn't what it should be.
    """
    try:
        root = base64.b64decode(response.root, validate=True)
        certificate = parse_certificate(response.certificate.encode(), what="certificate")
        answered = parse_certificate(response.authority.encode(), what="authority")
    except (ValueError, Malformed) as error:
        raise EnrolmentRefused(f"the fleet's answer holds no readable root or certificate: {error}") from None
    _expect("TUF root digest", expected=token.root_sha256, found=hashlib.sha256(root).hexdigest())
    _expect("authority digest", expected=token.ca_sha256, found=_digest(answered))
    _expect("certificate's key", expected=_key_digest(tls_key), found=_key_digest(certificate.public_key()))
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    _expect("certificate's name", expected=response.device, found=", ".join(str(name.value) for name in names))
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise EnrolmentRefused(f"the certificate isn't signed by the authority that the token names: {error}") from None
    return root


def _already(device: Device, *, secret_sha256: str, state: Path) -> Device:
    if device.token_sha256 != secret_sha256:
        raise EnrolmentRefused(
            f"{state} is that of device {device.device} ({device.name}), enrolled with another token; "
            "a new device needs an empty state folder"
        )
    return device


def _make_request(keys: DeviceKeys, *, label: Label, agent_version: str) -> bytes:
    return encode(
        EnrolmentRequest(
            name=label.name,
            profile=label.profile,
            agent_version=agent_version,
            identity_key=public_text(keys.identity.public_key()),
            hpke_key=hpke_public_text(keys.hpke.public_key()),
            hybrid_key=None if keys.hybrid is None else hybrid_public_text(keys.hybrid.public_key()),
            csr=make_csr(keys.tls),
            renews=True,
        )
    )


def make_csr(key: ec.EllipticCurvePrivateKey) -> str:
    """A certificate signing request in PEM. It asks for no name: the fleet gives one."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "unnamed")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def _fetch_authority(token: EnrolmentToken) -> x509.Certificate:
    """The authority's certificate. Who sent it doesn't matter: the token names its digest."""
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.minimum_version = ssl.TLSVersion.TLSv1_3
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    raw = _ask(token, Question("GET", paths.AUTHORITY), context=anyone, limit_bytes=MAX_AUTHORITY_BYTES)
    try:
        offered = parse_certificates(raw, what=f"{token.url}{paths.AUTHORITY}")
    except Malformed as error:
        raise EnrolmentRefused(str(error)) from None
    authority = next((one for one in offered if _digest(one) == token.ca_sha256), offered[0])
    _expect(f"authority digest of {token.url}", expected=token.ca_sha256, found=_digest(authority))
    return authority


def _ask(token: EnrolmentToken, question: Question, *, context: ssl.SSLContext, limit_bytes: int) -> bytes:
    try:
        return ask(token.url, question, context=context, limit_bytes=limit_bytes)
    except WrongServer as error:
        raise EnrolmentRefused(
            f"{token.url}: its certificate isn't by the authority that the token names: {error}"
        ) from None
    except FleetRefused as error:
        raise EnrolmentRefused(str(error)) from None


def _parse_response(raw: bytes) -> EnrolmentResponse:
    try:
        return decode(raw, EnrolmentResponse, what="the fleet's answer", limit_bytes=MAX_RESPONSE_BYTES)
    except WireError as error:
        raise EnrolmentRefused(str(error)) from None


def _expect(what: str, *, expected: str, found: str) -> None:
    if expected != found:
        raise EnrolmentRefused(f"{what}: expected {expected[:64]}, found {found[:64]}")


def _digest(certificate: x509.Certificate) -> str:
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def _key_digest(key: PublicKeyTypes) -> str:
    raw = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(raw).hexdigest()
