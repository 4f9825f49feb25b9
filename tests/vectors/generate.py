"""Which bytes must every implementation of the formats in docs/protocol.md read and write?

Computed from that document and the standards it names with cryptographic primitives only: nothing of `shoal_wire` is
used, so a fault there can't repeat itself here. Every key is fixed and in plain sight; use none of them elsewhere.

    python tests/vectors/generate.py            write the files
    python tests/vectors/generate.py --check    exit with 1 if a file isn't what would be written

The files in `documents/` are written by hand, as nothing in them is computed; `before_tuning.json` is what software
wrote that knew nothing of tuning.
"""

import base64
import hashlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FOLDER = Path(__file__).parent

DEVICE = "d-k3v7qmx2"
PAYLOAD = f'{{"device":"{DEVICE}","protocol":1,"sequence":17,"stream":"00112233445566778899aabbccddeeff"}}'
CONTENT_KEY = bytes(range(32))


def sha256(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def context(*values: str | int) -> bytes:
    """JSON list without white space; what isn't ASCII is escaped."""
    return json.dumps(values, separators=(",", ":")).encode()


# Sealed file


def seal(plaintext: bytes, *, content_key: bytes, suite: int, chunk_bytes: int) -> list[bytes]:
    """Header and sealed chunks, as "Sealed file" in docs/protocol.md says."""
    header = b"SHOALSEALED\0" + bytes([1, suite, 0, 0])
    header += chunk_bytes.to_bytes(4, "big") + len(plaintext).to_bytes(8, "big") + bytes(4)
    derived = HKDF(hashes.SHA256(), 39, salt=None, info=b"shoal/sealed/v1" + header).derive(content_key)
    cipher = AESGCM(derived[:32]) if suite == 1 else ChaCha20Poly1305(derived[:32])
    pieces = [plaintext[start : start + chunk_bytes] for start in range(0, len(plaintext), chunk_bytes)] or [b""]
    parts = [header]
    for index, piece in enumerate(pieces):
        is_last = index == len(pieces) - 1
        parts.append(cipher.encrypt(derived[32:] + index.to_bytes(4, "big") + bytes([is_last]), piece, header))
    return parts


def sealed_files() -> list[dict[str, Any]]:
    """Both suites; sizes around a chunk's."""
    chunk_bytes = 16
    cases = []
    for number, name in ((1, "aes-256-gcm"), (2, "chacha20-poly1305")):
        for size in (0, 1, chunk_bytes - 1, chunk_bytes, chunk_bytes + 1, 3 * chunk_bytes):
            plaintext = bytes(7 * place % 256 for place in range(size))
            parts = seal(plaintext, content_key=CONTENT_KEY, suite=number, chunk_bytes=chunk_bytes)
            cases.append(
                {
                    "suite": name,
                    "content_key_hex": CONTENT_KEY.hex(),
                    "chunk_bytes": chunk_bytes,
                    "plaintext_hex": plaintext.hex(),
                    "sealed_hex": b"".join(parts).hex(),
                    "ciphertext_sha256": sha256(b"".join(parts)),
                    "chunk_sha256s": [sha256(parts[0] + parts[1]), *map(sha256, parts[2:])],
                }
            )
    return cases


# Signed envelope


class SigningKey(NamedTuple):
    """A key with its SubjectPublicKeyInfo in DER."""

    private_hex: str
    public_der: bytes
    sign: Callable[[bytes], bytes]


def ed25519_key() -> SigningKey:
    """RFC 8410: the DER is a fixed prefix and the 32 bytes."""
    seed = hashlib.sha256(b"shoal vector ed25519").digest()
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    public = bytes.fromhex("302a300506032b6570032100") + key.public_key().public_bytes_raw()
    return SigningKey(seed.hex(), public, key.sign)


def p256_key() -> SigningKey:
    """RFC 5480: the DER is a fixed prefix and the uncompressed point. Signs as RFC 6979, so always alike."""
    scalar = hashlib.sha256(b"shoal vector p-256").digest()
    key = ec.derive_private_key(int.from_bytes(scalar, "big"), ec.SECP256R1())
    point = key.public_key().public_numbers()
    public = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
    public += point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    return SigningKey(scalar.hex(), public, lambda data: key.sign(data, algorithm))


def envelopes() -> list[dict[str, Any]]:
    """One document signed by a key of each kind."""
    cases = []
    for algorithm, key in (("ed25519", ed25519_key()), ("p-256", p256_key())):
        payload_type, payload = "application/vnd.shoal.ack.v1+json", PAYLOAD.encode()
        signed = f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload
        signature = {"keyid": sha256(key.public_der), "sig": base64.b64encode(key.sign(signed)).decode()}
        envelope = {
            "payloadType": payload_type,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [signature],
        }
        cases.append(
            {
                "algorithm": algorithm,
                "private_key_hex": key.private_hex,
                "public_key": base64.b64encode(key.public_der).decode(),
                "payload_type": payload_type,
                "payload": PAYLOAD,
                "signed_bytes_hex": signed.hex(),
                "envelope": envelope,
            }
        )
    return cases


# Grant: HPKE, RFC 9180, base mode, one message

KEM_X25519 = 0x0020
KDF_HKDF_SHA256 = 0x0001
AES_128_GCM = 0x0001
AES_256_GCM = 0x0002
CHACHA20_POLY1305 = 0x0003
AEAD_KEY_BYTES = {AES_128_GCM: 16, AES_256_GCM: 32, CHACHA20_POLY1305: 32}


def hpke_seal(
    plaintext: bytes, *, ephemeral: bytes, recipient: bytes, info: bytes, aead: int = AES_256_GCM, aad: bytes = b""
) -> bytes:
    """`enc || ciphertext` with a given ephemeral private key, to a recipient's public key."""
    private = x25519.X25519PrivateKey.from_private_bytes(ephemeral)
    shared = private.exchange(x25519.X25519PublicKey.from_public_bytes(recipient))
    enc = private.public_key().public_bytes_raw()
    key, nonce = hpke_schedule(extract_and_expand(shared, enc=enc, recipient=recipient), info=info, aead=aead)
    return enc + AESGCM(key).encrypt(nonce, plaintext, aad)


def hpke_open(sealed: bytes, *, private_key: bytes, info: bytes) -> bytes:
    """What was sealed; `cryptography.exceptions.InvalidTag` if it was sealed otherwise."""
    private = x25519.X25519PrivateKey.from_private_bytes(private_key)
    enc, ciphertext = sealed[:32], sealed[32:]
    shared = private.exchange(x25519.X25519PublicKey.from_public_bytes(enc))
    recipient = private.public_key().public_bytes_raw()
    key, nonce = hpke_schedule(extract_and_expand(shared, enc=enc, recipient=recipient), info=info, aead=AES_256_GCM)
    return AESGCM(key).decrypt(nonce, ciphertext, b"")


def extract_and_expand(shared: bytes, *, enc: bytes, recipient: bytes) -> bytes:
    """Section 4.1: ExtractAndExpand of DHKEM."""
    suite = b"KEM" + KEM_X25519.to_bytes(2, "big")
    extracted = labelled_extract(b"", b"eae_prk", shared, suite=suite)
    return labelled_expand(extracted, b"shared_secret", enc + recipient, size=32, suite=suite)


def hpke_schedule(shared_secret: bytes, *, info: bytes, aead: int, kem: int = KEM_X25519) -> tuple[bytes, bytes]:
    """Section 5.1: key and base nonce in base mode."""
    suite = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (kem, KDF_HKDF_SHA256, aead))
    identity = labelled_extract(b"", b"psk_id_hash", b"", suite=suite)
    schedule = b"\0" + identity + labelled_extract(b"", b"info_hash", info, suite=suite)
    secret = labelled_extract(shared_secret, b"secret", b"", suite=suite)
    key = labelled_expand(secret, b"key", schedule, size=AEAD_KEY_BYTES[aead], suite=suite)
    return key, labelled_expand(secret, b"base_nonce", schedule, size=12, suite=suite)


def labelled_extract(salt: bytes, label: bytes, key: bytes, *, suite: bytes) -> bytes:
    """Section 4."""
    return hmac_sha256(salt or bytes(32), b"HPKE-v1" + suite + label + key)


def labelled_expand(key: bytes, label: bytes, info: bytes, *, size: int, suite: bytes) -> bytes:
    """Section 4; `size` is at most 32, so one block is enough."""
    return hmac_sha256(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\1")[:size]


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """RFC 2104."""
    mac = HMAC(key, hashes.SHA256())
    mac.update(data)
    return mac.finalize()


def grants() -> list[dict[str, Any]]:
    """One to a device and one to the fleet."""
    private = hashlib.sha256(b"shoal vector hpke recipient").digest()
    public = x25519.X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    file_sha256 = sha256(b"a sealed file")
    cases = []
    for recipient, counter in ((DEVICE, 3), ("fleet", 0)):
        info = context("shoal/grant/v1", "note-events", 2, file_sha256, recipient, counter)
        ephemeral = hashlib.sha256(b"shoal vector hpke ephemeral " + recipient.encode()).digest()
        sealed = hpke_seal(CONTENT_KEY, ephemeral=ephemeral, recipient=public, info=info)
        cases.append(
            {
                "recipient_private_key_hex": private.hex(),
                "recipient_public_key": base64.b64encode(public).decode(),
                "release": "note-events",
                "version": 2,
                "recipient": recipient,
                "info": info.decode(),
                "content_key_hex": CONTENT_KEY.hex(),
                "grant": {
                    "ciphertext_sha256": file_sha256,
                    "counter": counter,
                    "sealed_key": base64.b64encode(sealed).decode(),
                },
            }
        )
    return cases


# Token, topics, answers' ids, kinds of boards, histograms


def tokens() -> list[dict[str, Any]]:
    """An enrolment token, with its parts."""
    parts = {
        "url": "https://fleet.example:8443",
        "secret": "vector-secret_0123456789-ABCDEFGHIJKLMNOPQR",
        "ca_sha256": sha256(b"authority"),
        "root_sha256": sha256(b"root"),
    }
    text = base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")
    return [{"token": f"shoal1.{text}", "parts": parts}]


def topics() -> dict[str, Any]:
    """The five topics of a device, and the filters of the two that subscribe."""
    channels = {"up": ("presence", "reported", "batch"), "down": ("desired", "ack")}
    return {
        "device": DEVICE,
        "topics": [
            {"direction": direction, "channel": name, "topic": f"shoal/v1/{DEVICE}/{direction}/{name}"}
            for direction, names in channels.items()
            for name in names
        ],
        "fleet_filter": "shoal/v1/+/up/+",
        "device_filter": f"shoal/v1/{DEVICE}/down/+",
    }


def answer_ids() -> list[dict[str, Any]]:
    """Ids of answers, among them names of items that JSON escapes."""
    items = ("sound-0001.wav", 'Lärm "laut"/1.wav', "音.wav", "\U0001f3b5.wav")
    cases = []
    for item in items:
        parts = ["shoal/answer/v1", DEVICE, "sounds", item, sha256(item.encode())]
        cases.append({"parts": parts, "bytes_hex": context(*parts).hex(), "answer_id": sha256(context(*parts))})
    return cases


def fingerprints() -> list[dict[str, Any]]:
    """Fingerprints of kinds of boards: every field is among what is hashed, also one that wasn't sent."""
    unsaid = {"board": "", "governor": "", "is_emulated": False}
    kinds: list[dict[str, Any]] = [
        {"architecture": "aarch64", "processor": "Cortex-A76", "processors": 4, "governor": "ondemand"},
        {"architecture": "x86_64", "board": 'Büro "2"', "processor": "Intel® N100", "processors": 2},
        {"architecture": "x86_64", "processor": "Intel® N100", "processors": 2, "is_emulated": True},
    ]
    cases = []
    for kind in kinds:
        text = json.dumps(unsaid | kind, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        cases.append({"kind": kind, "bytes_hex": text.encode().hex(), "fingerprint": sha256(text.encode())})
    return cases


def histograms() -> list[dict[str, Any]]:
    """DDSketch with the logarithmic mapping of 1 %: a value v above 0 is in bin ceil(log_gamma(v))."""
    gamma = 1.01 / 0.99
    cases = []
    for values in ([], [0.0, 0.0], [1.0, 2.0, 2.0, 3.5, 0.0, 1000.0], [0.5 * place for place in range(1, 101)]):
        keys = [math.ceil(math.log(value) / math.log(gamma)) for value in values if value > 0]
        counts = {key: keys.count(key) for key in sorted(keys)}
        cases.append(
            {
                "values": values,
                "zeros": values.count(0.0),
                "keys": list(counts),
                "counts": list(counts.values()),
                "total": math.fsum(values),
                "largest": 2 * gamma ** max(keys) / (gamma + 1) if keys else 0.0 if values else None,
            }
        )
    return cases


VECTORS: dict[str, Callable[[], Any]] = {
    "sealed_file.json": sealed_files,
    "envelope.json": envelopes,
    "grant.json": grants,
    "token.json": tokens,
    "topics.json": topics,
    "answer_id.json": answer_ids,
    "fingerprint.json": fingerprints,
    "histogram.json": histograms,
}


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    stale = []
    for name, make in VECTORS.items():
        text = json.dumps(make(), indent=2) + "\n"
        path = FOLDER / name
        if arguments != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    for name in stale:
        print(f"{name}: not what the generator writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
