"""Are grants HPKE as it was published, and nothing of our own?

Suites of grants have no associated data while the published ciphertexts do. So an implementation that shares nothing
with the product is held against the vectors first, and then opens what the product seals, and the other way round.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from shoal_wire import grant
from shoal_wire.errors import Untrusted
from shoal_wire.grant import Grant, GrantContext, RecipientKeys, make_grant, open_grant
from shoal_wire.hybrid_key import HybridPrivateKey

from tests.conformance.published_vectors import hpke_cases
from tests.vectors.generate import (
    AES_128_GCM,
    AES_256_GCM,
    CHACHA20_POLY1305,
    KDF_HKDF_SHA256,
    KEM_X25519,
    context,
    extract_and_expand,
    hpke_schedule,
)

MLKEM768_X25519 = 0x647A
CONTENT_KEY = bytes(range(32))
WHERE = GrantContext(release="note-events", version=2, recipient="d-1234")
FILE, COUNTER = "a" * 64, 3
INFO = context("shoal/grant/v1", WHERE.release, WHERE.version, FILE, WHERE.recipient, COUNTER)

CIPHERS: Mapping[int, Callable[[bytes], AESGCM | ChaCha20Poly1305]] = {
    AES_128_GCM: AESGCM,
    AES_256_GCM: AESGCM,
    CHACHA20_POLY1305: ChaCha20Poly1305,
}
X25519_CASES = [
    case for case in hpke_cases("test-vectors.json", kem=KEM_X25519, kdf=KDF_HKDF_SHA256) if case["aead_id"] in CIPHERS
]
HYBRID_CASES = hpke_cases("hpke-pq-test-vectors.json", kem=MLKEM768_X25519, kdf=KDF_HKDF_SHA256)


def x25519_shared(enc: bytes, *, private: bytes) -> bytes:
    """RFC 9180, section 4.1: Decap."""
    key = x25519.X25519PrivateKey.from_private_bytes(private)
    shared = key.exchange(x25519.X25519PublicKey.from_public_bytes(enc))
    return extract_and_expand(shared, enc=enc, recipient=key.public_key().public_bytes_raw())


def hybrid_shared(enc: bytes, *, private: bytes) -> bytes:
    """X-Wing (draft-connolly-cfrg-xwing-kem, section 5.4). `private`: seed of ML-KEM-768, 64 bytes, then X25519, 32."""
    quantum = mlkem.MLKEM768PrivateKey.from_seed_bytes(private[:64]).decapsulate(enc[:1088])
    key = x25519.X25519PrivateKey.from_private_bytes(private[64:])
    classical = key.exchange(x25519.X25519PublicKey.from_public_bytes(enc[1088:]))
    public = key.public_key().public_bytes_raw()
    return hashlib.sha3_256(quantum + classical + enc[1088:] + public + bytes.fromhex("5c2e2f2f5e5c")).digest()


def test_there_are_vectors_for_each_suite_of_grants() -> None:
    assert {case["aead_id"] for case in X25519_CASES} == set(CIPHERS)
    assert HYBRID_CASES


@pytest.mark.parametrize("case", X25519_CASES, ids=lambda case: f"aead-{case['aead_id']}")
def test_the_independent_implementation_agrees_with_rfc_9180(case: dict[str, Any]) -> None:
    raw = {name: bytes.fromhex(case[name]) for name in ("enc", "skRm", "info", "shared_secret", "key", "base_nonce")}
    shared = x25519_shared(raw["enc"], private=raw["skRm"])
    key, nonce = hpke_schedule(shared, info=raw["info"], aead=case["aead_id"])
    assert (shared, key, nonce) == (raw["shared_secret"], raw["key"], raw["base_nonce"])
    first = {name: bytes.fromhex(case["encryptions"][0][name]) for name in ("aad", "ct", "pt")}
    assert CIPHERS[case["aead_id"]](key).decrypt(nonce, first["ct"], first["aad"]) == first["pt"]


@pytest.mark.parametrize("case", HYBRID_CASES, ids=lambda case: f"aead-{case['aead_id']}")
def test_the_independent_implementation_agrees_with_the_hybrid_draft(case: dict[str, Any]) -> None:
    raw = {name: bytes.fromhex(case[name]) for name in ("enc", "skRm", "info", "shared_secret", "key", "base_nonce")}
    # The private key is a seed that is stretched (section 5.2 of the X-Wing draft).
    private = hashlib.shake_256(raw["skRm"]).digest(96)
    shared = hybrid_shared(raw["enc"], private=private)
    key, nonce = hpke_schedule(shared, info=raw["info"], aead=case["aead_id"], kem=MLKEM768_X25519)
    assert (shared, key, nonce) == (raw["shared_secret"], raw["key"], raw["base_nonce"])


@pytest.mark.parametrize("case", X25519_CASES, ids=lambda case: f"aead-{case['aead_id']}")
def test_the_library_opens_what_is_sealed_under_a_published_key_schedule(case: dict[str, Any]) -> None:
    aead = {AES_128_GCM: AEAD.AES_128_GCM, AES_256_GCM: AEAD.AES_256_GCM, CHACHA20_POLY1305: AEAD.CHACHA20_POLY1305}
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, aead[case["aead_id"]])
    raw = {name: bytes.fromhex(case[name]) for name in ("enc", "skRm", "info", "key", "base_nonce")}
    sealed = raw["enc"] + CIPHERS[case["aead_id"]](raw["key"]).encrypt(raw["base_nonce"], CONTENT_KEY, b"")
    private = x25519.X25519PrivateKey.from_private_bytes(raw["skRm"])
    assert suite.decrypt(sealed, private, info=raw["info"]) == CONTENT_KEY


def test_our_grant_opens_independently() -> None:
    private = x25519.X25519PrivateKey.generate()
    made = make_grant(CONTENT_KEY, private.public_key(), context=WHERE, ciphertext_sha256=FILE, counter=COUNTER)
    sealed = base64.b64decode(made.sealed_key)
    shared = x25519_shared(sealed[:32], private=private.private_bytes_raw())
    key, nonce = hpke_schedule(shared, info=INFO, aead=AES_256_GCM)
    assert AESGCM(key).decrypt(nonce, sealed[32:], b"") == CONTENT_KEY


def test_our_hybrid_grant_opens_independently() -> None:
    private = HybridPrivateKey.generate()
    made = make_grant(CONTENT_KEY, private.public_key(), context=WHERE, ciphertext_sha256=FILE, counter=COUNTER)
    sealed = base64.b64decode(made.sealed_key)
    shared = hybrid_shared(sealed[:1120], private=private.raw)
    key, nonce = hpke_schedule(shared, info=INFO, aead=AES_256_GCM, kem=MLKEM768_X25519)
    assert AESGCM(key).decrypt(nonce, sealed[1120:], b"") == CONTENT_KEY


@pytest.mark.parametrize("case", X25519_CASES, ids=lambda case: f"aead-{case['aead_id']}")
def test_we_open_an_independent_grant_of_our_suite_alone(case: dict[str, Any]) -> None:
    """Made with the published recipient and ephemeral keys."""
    enc, private = bytes.fromhex(case["enc"]), bytes.fromhex(case["skRm"])
    key, nonce = hpke_schedule(x25519_shared(enc, private=private), info=INFO, aead=case["aead_id"])
    sealed = enc + CIPHERS[case["aead_id"]](key).encrypt(nonce, CONTENT_KEY, b"")
    made = Grant(FILE, COUNTER, base64.b64encode(sealed).decode(), grant.X25519)
    keys = RecipientKeys(x25519.X25519PrivateKey.from_private_bytes(private))
    if case["aead_id"] == AES_256_GCM:
        assert open_grant(made, keys, context=WHERE) == CONTENT_KEY
    else:
        with pytest.raises(Untrusted):
            open_grant(made, keys, context=WHERE)


def test_another_context_opens_nothing() -> None:
    private = x25519.X25519PrivateKey.generate()
    made = make_grant(CONTENT_KEY, private.public_key(), context=WHERE, ciphertext_sha256=FILE, counter=COUNTER)
    sealed = base64.b64decode(made.sealed_key)
    shared = x25519_shared(sealed[:32], private=private.private_bytes_raw())
    key, nonce = hpke_schedule(shared, info=INFO + b"x", aead=AES_256_GCM)
    with pytest.raises(InvalidTag):
        AESGCM(key).decrypt(nonce, sealed[32:], b"")
