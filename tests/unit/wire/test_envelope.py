import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_wire import envelope
from shoal_wire.encoding import MAX_DOCUMENT_BYTES
from shoal_wire.envelope import ACK, DESIRED, KeySigner, PrivateKey, PublicKey, parse_public_key, public_text, verify
from shoal_wire.errors import Malformed, Untrusted, WireError

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\1")
DEVICE_KEY = ec.derive_private_key(7, ec.SECP256R1())
PAYLOAD = b'{"sequence":17}'

EITHER_KEY = pytest.mark.parametrize("key", [KEY, DEVICE_KEY], ids=["ed25519", "p-256"])


def seal(payload: bytes = PAYLOAD, payload_type: str = ACK, key: PrivateKey = KEY) -> dict[str, Any]:
    sealed: dict[str, Any] = json.loads(envelope.seal(payload, payload_type, KeySigner(key)))
    return sealed


def open_(sealed: dict[str, Any], *keys: PublicKey, limit_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    return verify(json.dumps(sealed).encode(), ACK, keys, what="ack", limit_bytes=limit_bytes)


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


@given(payload=st.binary(max_size=50), payload_type=st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_signed_payload_is_returned_as_it_was(payload: bytes, payload_type: str) -> None:
    sealed = envelope.seal(payload, payload_type, KeySigner(KEY))

    assert verify(sealed, payload_type, [OTHER_KEY.public_key(), KEY.public_key()], what="document") == payload


@EITHER_KEY
def test_bit_changed_in_payload_or_signature_is_refused(key: PrivateKey) -> None:
    sealed = seal(key=key)
    for field, holder in (("payload", sealed), ("sig", sealed["signatures"][0])):
        text = holder[field]
        raw = base64.b64decode(text)
        for place in range(len(raw)):
            for bit in range(8):
                holder[field] = base64.b64encode(flipped(raw, place, bit)).decode()
                with pytest.raises(Untrusted, match="doesn't fit: the bytes were changed"):
                    open_(sealed, key.public_key())
        holder[field] = text
    assert open_(sealed, key.public_key()) == PAYLOAD


def test_bit_changed_anywhere_in_an_envelope_is_refused() -> None:
    raw = json.dumps(seal(), separators=(",", ":")).encode()
    for place in range(len(raw)):
        for bit in range(8):
            with pytest.raises(WireError):
                verify(flipped(raw, place, bit), ACK, [KEY.public_key()], what="ack")


def test_envelope_cut_short_anywhere_is_refused() -> None:
    raw = json.dumps(seal()).encode()
    for length in range(len(raw)):
        with pytest.raises(Malformed, match=r"^ack: "):
            verify(raw[:length], ACK, [KEY.public_key()], what="ack")


def test_document_of_another_type_is_refused() -> None:
    with pytest.raises(Untrusted, match=r"^ack: expected a document of type .*ack.*, found '.*desired"):
        open_(seal(payload_type=DESIRED), KEY.public_key())


def test_signature_does_not_count_for_another_type() -> None:
    with pytest.raises(Untrusted, match="doesn't fit"):
        open_(seal(payload_type=DESIRED) | {"payloadType": ACK}, KEY.public_key())


@pytest.mark.parametrize("space", [1, 2])
def test_type_and_payload_can_not_be_cut_elsewhere(space: int) -> None:
    """The lengths are signed, so that no byte can be moved from the one to the other."""
    sealed = seal(payload=b"x" * space + PAYLOAD)
    sealed["payloadType"] += "x" * space
    sealed["payload"] = base64.b64encode(PAYLOAD).decode()

    with pytest.raises(Untrusted):
        verify(json.dumps(sealed).encode(), sealed["payloadType"], [KEY.public_key()], what="ack")


def test_signature_by_another_key_is_refused_and_both_are_named() -> None:
    with pytest.raises(Untrusted) as caught:
        open_(seal(key=OTHER_KEY), KEY.public_key())
    assert envelope.key_id(KEY.public_key())[:12] in str(caught.value)
    assert envelope.key_id(OTHER_KEY.public_key())[:12] in str(caught.value)


def test_signature_by_another_key_under_the_name_of_a_trusted_one_is_refused() -> None:
    sealed = seal(key=OTHER_KEY)
    sealed["signatures"][0]["keyid"] = envelope.key_id(KEY.public_key())

    with pytest.raises(Untrusted, match="doesn't fit"):
        open_(sealed, KEY.public_key())


def test_nothing_is_trusted_without_a_key() -> None:
    with pytest.raises(Untrusted, match="none is trusted yet"):
        open_(seal())


def test_one_trusted_signature_among_foreign_ones_is_enough() -> None:
    sealed = seal()
    sealed["signatures"].insert(0, seal(key=OTHER_KEY)["signatures"][0])

    assert open_(sealed, KEY.public_key()) == PAYLOAD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signatures": []}, "length >= 1"),
        ({"signatures": [{"keyid": "0" * 64, "sig": ""}] * 17}, "length <= 16"),
        ({"signatures": [{"keyid": "KEY", "sig": ""}]}, r"regex.*keyid"),
        ({"signatures": [{"keyid": "0" * 64, "sig": "-_"}]}, r"regex.*sig"),
        ({"payload": "é"}, "not base64"),
        ({"payload": "e30"}, "not base64"),
        ({"payload": "e30=\n"}, "not base64"),
        ({"payload": "e31="}, "not base64"),
        ({"payload": 1}, r"\$\.payload"),
        ({"payloadType": "x" * 201}, r"\$\.payloadType"),
    ],
)
def test_what_is_no_envelope_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Malformed, match=rf"^ack: .*{message}"):
        open_(seal() | change, KEY.public_key())


def test_too_long_a_payload_is_refused_and_the_longest_is_not() -> None:
    assert open_(seal(b"x" * 1000), KEY.public_key(), limit_bytes=1000) == b"x" * 1000
    with pytest.raises(Malformed, match=r"^ack: 1001 bytes, expected at most 1000"):
        open_(seal(b"x" * 1001), KEY.public_key(), limit_bytes=1000)
    with pytest.raises(Malformed, match=r"^ack: .* bytes, expected at most"):
        open_(seal(b"x" * 20_000), KEY.public_key(), limit_bytes=1000)


def test_unknown_fields_of_an_envelope_are_ignored() -> None:
    assert open_(seal() | {"of_the_future": 1}, KEY.public_key()) == PAYLOAD


def test_keys_of_an_envelope_are_told_without_trusting_it() -> None:
    sealed = json.dumps(seal() | {"payload": "AAAA"}).encode()

    assert envelope.signing_key_ids(sealed, what="ack") == (envelope.key_id(KEY.public_key()),)


@EITHER_KEY
def test_public_key_reads_back(key: PrivateKey) -> None:
    read = parse_public_key(public_text(key.public_key()), what="identity key")

    assert envelope.public_bytes(read) == envelope.public_bytes(key.public_key())


def der(tag: int, *contents: bytes) -> bytes:
    return bytes([tag, len(b"".join(contents))]) + b"".join(contents)


UNKNOWN_ALGORITHM = der(0x30, der(0x30, der(6, b"\x2b\x06\x01\x04\x01\x82\x37\x15\x01")), der(3, bytes(33)))
UNKNOWN_CURVE = der(
    0x30,
    der(0x30, der(6, b"\x2a\x86\x48\xce\x3d\x02\x01"), der(6, b"\x2b\x81\x04\x00\x63")),
    der(3, b"\0\4" + bytes(64)),
)
X25519 = x25519.X25519PrivateKey.from_private_bytes(bytes(32)).public_key()
P384 = ec.derive_private_key(7, ec.SECP384R1()).public_key()


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x30\x00",
        UNKNOWN_ALGORITHM,
        UNKNOWN_CURVE,
        X25519.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        P384.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        envelope.public_bytes(KEY.public_key())[:-1],
        envelope.public_bytes(KEY.public_key()) + b"\0",
        envelope.public_bytes(DEVICE_KEY.public_key())[:-1] + b"\0",
    ],
    ids=["empty", "sequence", "algorithm", "curve", "x25519", "p-384", "short", "long", "not on the curve"],
)
def test_key_of_another_kind_is_refused(encoded: bytes) -> None:
    with pytest.raises(Malformed, match=r"^identity key: (not a|expected an Ed25519 or P-256) public key"):
        parse_public_key(base64.b64encode(encoded).decode(), what="identity key")


@given(text=st.text(max_size=100))
@settings(max_examples=50, deadline=None)
def test_any_text_is_no_key(text: str) -> None:
    with pytest.raises(Malformed, match=r"^identity key: "):
        parse_public_key(text, what="identity key")
