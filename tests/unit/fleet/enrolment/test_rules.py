"""Is a request believed only if it is signed by the identity key inside it?"""

import base64
import json

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_fleet.enrolment.rules import MAX_REQUEST_BYTES, read_request
from shoal_fleet.pki.errors import BadCsr
from shoal_wire import envelope
from shoal_wire.envelope import public_text
from shoal_wire.errors import Malformed, Untrusted, WireError

from tests.unit.fleet.enrolment.applicant import Applicant


def test_same_keys_have_the_same_digest_though_the_signing_request_is_new() -> None:
    applicant = Applicant()
    first, second = applicant.request(), applicant.request()
    assert first.csr != second.csr
    assert read_request(applicant.sign(first)).keys_sha256 == read_request(applicant.sign(second, name="x")).keys_sha256


@pytest.mark.parametrize("other", ["identity", "tls", "hpke"])
def test_each_key_counts_for_the_digest(other: str) -> None:
    applicant, stranger = Applicant(), Applicant()
    first = read_request(applicant.sign()).keys_sha256
    setattr(applicant, other, getattr(stranger, other))
    assert read_request(applicant.sign()).keys_sha256 != first


def test_refuses_a_request_signed_by_another_key() -> None:
    with pytest.raises(Untrusted):
        read_request(Applicant().sign(key=Applicant().identity))


def test_refuses_a_document_of_another_kind() -> None:
    with pytest.raises(Untrusted, match="expected a document of type"):
        read_request(Applicant().sign(kind=envelope.BATCH))


def test_refuses_a_changed_request() -> None:
    body = json.loads(Applicant().sign())
    payload = json.loads(base64.b64decode(body["payload"]))
    payload["name"] += "!"
    body["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    with pytest.raises(Untrusted, match="were changed"):
        read_request(json.dumps(body).encode())


def test_refuses_an_identity_key_that_is_not_p256() -> None:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    with pytest.raises(Untrusted, match="expected a P-256 key"):
        read_request(Applicant().sign(identity_key=public_text(key)))


def test_refuses_a_signing_request_for_a_key_that_is_not_p256() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    with pytest.raises(BadCsr, match="expected a P-256 key"):
        read_request(Applicant().sign(csr=csr.public_bytes(Encoding.PEM).decode()))


@pytest.mark.parametrize(
    ("field", "value"), [("csr", "no PEM"), ("hpke_key", "AAAA"), ("name", 7), ("profile", "x" * 300)]
)
def test_refuses_wrong_fields(field: str, value: object) -> None:
    applicant = Applicant()
    request = msgspec.structs.replace(applicant.request(), **{field: value})
    with pytest.raises((Malformed, BadCsr)):
        read_request(applicant.sign(request))


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"payload":"!!"}', b'{"payload":"e30="}', b"[" * 100_000])
def test_refuses_nonsense(raw: bytes) -> None:
    with pytest.raises(WireError):
        read_request(raw)


def test_refuses_what_is_too_long_before_it_is_parsed() -> None:
    with pytest.raises(Malformed, match="expected at most"):
        read_request(b" " * (2 * MAX_REQUEST_BYTES + 1))
