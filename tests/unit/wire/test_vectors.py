"""Does wire read and write the bytes that were computed without it?"""

import base64
import hashlib
import io
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from shoal_wire import envelope, sealed_file, topics
from shoal_wire.encoding import canonical, decode, encode
from shoal_wire.grant import (
    Grant,
    GrantContext,
    RecipientKeys,
    hpke_public_text,
    make_grant,
    open_grant,
    parse_hpke_public,
)
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.manifest import parse_draft, parse_manifest
from shoal_wire.token import EnrolmentToken, parse_token, write_token
from shoal_wire.tuning import BoardKind

from tests.vectors.examples import KINDS, STRICT, VECTORS, example, load, to_json, with_unknown_fields
from tests.vectors.generate import AES_128_GCM, hpke_open, hpke_seal


def private_key(case: dict[str, Any]) -> envelope.PrivateKey:
    secret = bytes.fromhex(case["private_key_hex"])
    if case["algorithm"] == "ed25519":
        return ed25519.Ed25519PrivateKey.from_private_bytes(secret)
    return ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())


def test_vector_files_are_what_the_generator_writes() -> None:
    check = subprocess.run(
        [sys.executable, VECTORS / "generate.py", "--check"], capture_output=True, text=True, timeout=60
    )

    assert (check.stdout, check.returncode) == ("", 0)


def test_generator_seals_as_rfc_9180_does() -> None:
    """Appendix A.1.1 of the RFC, encryption of sequence number 0."""
    sealed = hpke_seal(
        bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479"),
        ephemeral=bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"),
        recipient=bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        info=bytes.fromhex("4f6465206f6e2061204772656369616e2055726e"),
        aad=bytes.fromhex("436f756e742d30"),
        aead=AES_128_GCM,
    )

    assert sealed[:32].hex() == "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    assert sealed[32:].hex() == (
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )


@pytest.mark.parametrize(
    "case", load("sealed_file.json"), ids=lambda case: f"{case['suite']}-{len(case['plaintext_hex']) // 2}"
)
def test_sealed_file(case: dict[str, Any]) -> None:
    key, plaintext = bytes.fromhex(case["content_key_hex"]), bytes.fromhex(case["plaintext_hex"])
    sealed = bytes.fromhex(case["sealed_hex"])
    parts = list(sealed_file.read_parts(io.BytesIO(sealed).read))

    assert list(sealed_file.seal(plaintext, key, suite=case["suite"], chunk_bytes=case["chunk_bytes"])) == parts
    assert b"".join(sealed_file.unseal(parts, key)) == plaintext
    assert sealed_file.digest(parts) == (case["ciphertext_sha256"], len(sealed), tuple(case["chunk_sha256s"]))
    assert sealed_file.parse_header(sealed[:32]) == (case["suite"], case["chunk_bytes"], len(plaintext))
    assert sealed_file.parse_header(sealed[:32]).ciphertext_bytes == len(sealed)


@pytest.mark.parametrize("case", load("envelope.json"), ids=lambda case: case["algorithm"])
def test_envelope_is_verified(case: dict[str, Any]) -> None:
    public = envelope.parse_public_key(case["public_key"], what="key")

    payload = envelope.verify(to_json(case["envelope"]), case["payload_type"], [public], what="document")

    assert payload == case["payload"].encode()
    assert envelope.public_text(private_key(case).public_key()) == case["public_key"]


def test_envelope_signed_by_ed25519_is_the_same_bytes() -> None:
    case = next(case for case in load("envelope.json") if case["algorithm"] == "ed25519")

    sealed = envelope.seal(case["payload"].encode(), case["payload_type"], envelope.KeySigner(private_key(case)))

    assert json.loads(sealed) == case["envelope"]


@pytest.mark.parametrize("case", load("envelope.json"), ids=lambda case: case["algorithm"])
def test_signature_covers_the_bytes_that_dsse_says(case: dict[str, Any]) -> None:
    class Recorder:
        key_id = "0" * 64

        def sign(self, data: bytes) -> bytes:
            self.signed = data
            return b""

    recorder = Recorder()
    envelope.seal(case["payload"].encode(), case["payload_type"], recorder)

    assert recorder.signed.hex() == case["signed_bytes_hex"]


@pytest.mark.parametrize("case", load("grant.json"), ids=lambda case: case["recipient"])
def test_grant(case: dict[str, Any]) -> None:
    private = x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(case["recipient_private_key_hex"]))
    public = parse_hpke_public(case["recipient_public_key"], what="key")
    context = GrantContext(case["release"], case["version"], case["recipient"])
    grant = msgspec.convert(case["grant"], Grant)
    content_key = bytes.fromhex(case["content_key_hex"])

    assert open_grant(grant, RecipientKeys(private), context=context) == content_key
    assert hpke_public_text(private.public_key()) == case["recipient_public_key"]

    made = make_grant(
        content_key, public, context=context, ciphertext_sha256=grant.ciphertext_sha256, counter=grant.counter
    )
    sealed = base64.b64decode(made.sealed_key)
    assert hpke_open(sealed, private_key=private.private_bytes_raw(), info=case["info"].encode()) == content_key


@pytest.mark.parametrize("case", load("token.json"))
def test_token(case: dict[str, Any]) -> None:
    token = EnrolmentToken(**case["parts"])

    assert parse_token(case["token"]) == token
    assert write_token(token) == case["token"]


def test_topics() -> None:
    case = load("topics.json")
    device = case["device"]
    up = {channel.value: topics.up(device, channel) for channel in topics.Up}
    down = {channel.value: topics.down(device, channel) for channel in topics.Down}

    for direction, built in (("up", up), ("down", down)):
        assert built == {each["channel"]: each["topic"] for each in case["topics"] if each["direction"] == direction}
    for each in case["topics"]:
        parsed = topics.parse(each["topic"])
        assert (parsed.device, parsed.channel.value) == (device, each["channel"])
        assert isinstance(parsed.channel, topics.Up) is (each["direction"] == "up")
    assert (topics.all_up(), topics.all_down(device)) == (case["fleet_filter"], case["device_filter"])


@pytest.mark.parametrize("case", load("answer_id.json"), ids=lambda case: ascii(case["parts"][3]))
def test_answer_id(case: dict[str, Any]) -> None:
    assert canonical(case["parts"]).hex() == case["bytes_hex"]
    assert hashlib.sha256(canonical(case["parts"])).hexdigest() == case["answer_id"]


@pytest.mark.parametrize("case", load("fingerprint.json"), ids=lambda case: case["fingerprint"][:8])
def test_fingerprint(case: dict[str, Any]) -> None:
    kind = msgspec.convert(case["kind"], BoardKind)

    assert encode(kind).hex() == case["bytes_hex"]
    assert kind.fingerprint == case["fingerprint"]


@pytest.mark.parametrize("case", load("histogram.json"), ids=lambda case: f"{len(case['values'])}-values")
def test_histogram(case: dict[str, Any]) -> None:
    sketch = Sketch()
    for value in case["values"]:
        sketch.add(value)
    histogram = sketch.histogram()

    assert histogram == Histogram(
        zeros=case["zeros"], keys=tuple(case["keys"]), counts=tuple(case["counts"]), total=histogram.total
    )
    assert histogram.total == pytest.approx(case["total"])
    assert sketch.quantile(1.0) == (None if case["largest"] is None else pytest.approx(case["largest"]))


@pytest.mark.parametrize("name", KINDS)
def test_document_keeps_every_field(name: str) -> None:
    document = example(name)

    assert json.loads(encode(decode(to_json(document), KINDS[name], what=name))) == document


@pytest.mark.parametrize("name", KINDS)
def test_document_has_the_agreed_defaults(name: str) -> None:
    examples = load(f"documents/{name}.json")
    read = decode(to_json(examples["smallest"]), KINDS[name], what=name)

    assert json.loads(encode(read)) == examples["smallest"] | examples["defaults"]


@pytest.mark.parametrize("name", sorted(KINDS.keys() - STRICT))
def test_document_with_fields_of_newer_software_is_read_as_without_them(name: str) -> None:
    document = example(name)
    if name == "batch":
        document["rows"] = []

    newer = decode(to_json(with_unknown_fields(document)), KINDS[name], what=name)

    assert newer == decode(to_json(document), KINDS[name], what=name)


def test_release_texts_refer_to_what_they_hold() -> None:
    manifest = parse_manifest(to_json(example("manifest")))
    draft = parse_draft(to_json(example("release_draft")))

    assert manifest.models == draft.models
    assert manifest.file("scale.wav").role == "golden"
