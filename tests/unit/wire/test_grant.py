import base64
from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed, Unsupported, Untrusted
from shoal_wire.grant import (
    FLEET,
    MLKEM768_X25519,
    X25519,
    Grant,
    GrantContext,
    RecipientKeys,
    hpke_public_text,
    make_grant,
    open_grant,
    parse_hpke_public,
)
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text, parse_hybrid_public

CONTENT_KEY = bytes(range(32))
DEVICE_KEY = x25519.X25519PrivateKey.from_private_bytes(b"\1" * 32)
OTHER_KEY = x25519.X25519PrivateKey.from_private_bytes(b"\2" * 32)
HYBRID_KEY = HybridPrivateKey(bytes(range(96)))
KEYS = RecipientKeys(DEVICE_KEY)
BOTH_KEYS = RecipientKeys(DEVICE_KEY, HYBRID_KEY)
CONTEXT = GrantContext(release="note-events", version=2, recipient="d-1234")


def grant(content_key: bytes = CONTENT_KEY) -> Grant:
    return make_grant(content_key, DEVICE_KEY.public_key(), context=CONTEXT, ciphertext_sha256="a" * 64, counter=3)


def test_opens_where_it_is_meant_for() -> None:
    assert open_grant(grant(), KEYS, context=CONTEXT) == CONTENT_KEY


def hybrid_grant() -> Grant:
    return make_grant(CONTENT_KEY, HYBRID_KEY.public_key(), context=CONTEXT, ciphertext_sha256="a" * 64, counter=3)


def test_hybrid_grant_opens_where_it_is_meant_for() -> None:
    assert hybrid_grant().suite == MLKEM768_X25519
    assert open_grant(hybrid_grant(), BOTH_KEYS, context=CONTEXT) == CONTENT_KEY


def test_recipient_with_both_keys_opens_the_older_kind_too() -> None:
    assert open_grant(grant(), BOTH_KEYS, context=CONTEXT) == CONTENT_KEY


def test_hybrid_grant_is_bound_and_to_one_recipient() -> None:
    other = RecipientKeys(DEVICE_KEY, HybridPrivateKey(bytes(range(1, 97))))
    for keys, context in ((other, CONTEXT), (BOTH_KEYS, replace(CONTEXT, version=3))):
        with pytest.raises(Untrusted, match="not sealed to d-1234"):
            open_grant(hybrid_grant(), keys, context=context)


def test_grant_under_the_name_of_another_suite_is_refused() -> None:
    for moved in (replace(hybrid_grant(), suite=X25519), replace(grant(), suite=MLKEM768_X25519)):
        with pytest.raises(Untrusted, match="not sealed"):
            open_grant(moved, BOTH_KEYS, context=CONTEXT)


@pytest.mark.parametrize("suite", [MLKEM768_X25519, "kyber-9000"])
def test_suite_without_a_key_for_it_says_so(suite: str) -> None:
    with pytest.raises(Unsupported, match=f"sealed by {suite}, for which d-1234 has no key"):
        open_grant(replace(grant(), suite=suite), KEYS, context=CONTEXT)


def test_grant_by_the_first_suite_is_written_as_agents_know_it() -> None:
    assert set(msgspec.json.decode(encode(grant()))) == {"ciphertext_sha256", "counter", "sealed_key"}


def test_hybrid_public_key_survives_as_text() -> None:
    text = hybrid_public_text(HYBRID_KEY.public_key())
    assert parse_hybrid_public(text, what="key").raw == HYBRID_KEY.public_key().raw


@pytest.mark.parametrize("raw", [b"", bytes(1215), bytes(1217), b"\xff" * 1216])
def test_refuses_what_is_no_hybrid_key(raw: bytes) -> None:
    # FIPS 203, section 7.2: an encapsulation key whose coefficients are 3329 or more is none.
    with pytest.raises(Malformed, match=r"^key: expected a public key of ML-KEM-768 and X25519"):
        parse_hybrid_public(base64.b64encode(raw).decode(), what="key")


def test_two_grants_of_one_key_have_no_sealed_bytes_in_common() -> None:
    assert grant().sealed_key != grant().sealed_key


@pytest.mark.parametrize(
    "moved",
    [
        replace(CONTEXT, release="note-event"),
        replace(CONTEXT, version=3),
        replace(CONTEXT, recipient="d-1235"),
        replace(CONTEXT, recipient=FLEET),
    ],
)
def test_moved_to_another_release_or_device_is_refused(moved: GrantContext) -> None:
    with pytest.raises(
        Untrusted, match=rf"^grant for file aaaaaaaaaaaa of {moved.release} {moved.version}: not sealed"
    ):
        open_grant(grant(), KEYS, context=moved)


def test_moved_to_another_file_or_counter_is_refused() -> None:
    for moved in (replace(grant(), ciphertext_sha256="b" * 64), replace(grant(), counter=4)):
        with pytest.raises(Untrusted):
            open_grant(moved, KEYS, context=CONTEXT)


def test_key_of_another_device_does_not_open_it() -> None:
    with pytest.raises(Untrusted, match="not sealed to d-1234"):
        open_grant(grant(), RecipientKeys(OTHER_KEY), context=CONTEXT)


def test_bit_changed_anywhere_is_refused() -> None:
    sealed = base64.b64decode(grant().sealed_key)
    for place in range(len(sealed)):
        for bit in range(8):
            # X25519 ignores the topmost bit of a public key, but HPKE's key schedule does not.
            changed = bytearray(sealed)
            changed[place] ^= 1 << bit
            with pytest.raises(Untrusted):
                open_grant(Grant("a" * 64, 3, base64.b64encode(changed).decode()), KEYS, context=CONTEXT)


@given(sealed=st.binary(max_size=120))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_refused(sealed: bytes) -> None:
    with pytest.raises(Untrusted):
        open_grant(Grant("a" * 64, 3, base64.b64encode(sealed).decode()), KEYS, context=CONTEXT)


@pytest.mark.parametrize("text", ["A", "é", "AA==\n", "AB=="])
def test_sealed_key_that_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="not base64"):
        open_grant(Grant("a" * 64, 3, text), KEYS, context=CONTEXT)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_content_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"a key of {size} bytes, expected 32"):
        open_grant(grant(bytes(size)), KEYS, context=CONTEXT)


def test_public_key_reads_back() -> None:
    public = DEVICE_KEY.public_key()

    assert parse_hpke_public(hpke_public_text(public), what="key").public_bytes_raw() == public.public_bytes_raw()


LOW_ORDER = (
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
)
"""Points of order 1, 2, 4 and 8 on the curve or its twist: with them, every shared secret is zero (RFC 7748, 6.1)."""


@pytest.mark.parametrize(
    "spoil", [lambda raw: raw[:-1], lambda raw: raw + b"\0", *[lambda _, p=p: p for p in LOW_ORDER]]
)
def test_public_key_to_which_nothing_can_be_sealed_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    raw = spoil(DEVICE_KEY.public_key().public_bytes_raw())

    with pytest.raises(Malformed, match=r"^HPKE key: expected an X25519 public key"):
        parse_hpke_public(base64.b64encode(raw).decode(), what="HPKE key")
