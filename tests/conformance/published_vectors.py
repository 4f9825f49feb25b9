"""Which published test vectors are there for what the formats are made of?

They come with the package `cryptography_vectors`: those of RFC 9180, of draft-ietf-hpke-pq, of NIST's CAVP for AES-GCM
and those of BoringSSL for ChaCha20-Poly1305.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import pytest

pytest.importorskip("cryptography_vectors", reason="the published vectors aren't installed")


class AeadCase(NamedTuple):
    """One call of a cipher. `plaintext` is None where it must be refused."""

    key: bytes
    nonce: bytes
    associated: bytes
    sealed: bytes
    """Ciphertext, then tag."""
    plaintext: bytes | None


def hpke_cases(name: str, *, kem: int, kdf: int) -> list[dict[str, Any]]:
    """Vectors in base mode from one of the two files."""
    cases = json.loads(_folder("HPKE").joinpath(name).read_text())
    return [case for case in cases if (case["mode"], case["kem_id"], case["kdf_id"]) == (0, kem, kdf)]


def aes_256_gcm_cases() -> list[AeadCase]:
    """Those with nonces of 96 bits and tags of 128, as the sealed file has them."""
    cases, heading = [], {}
    text = _folder("ciphers", "AES", "GCM").joinpath("gcmDecrypt256.rsp").read_text()
    for block in text.split("\n\n"):
        fields = dict(_fields(block))
        if block.strip().startswith("["):
            heading = fields
        elif "Key" in fields and (heading["IVlen"], heading["Taglen"]) == ("96", "128"):
            raw = {name: bytes.fromhex(value) for name, value in fields.items() if name not in {"Count", "FAIL"}}
            plaintext = None if "FAIL" in fields else raw["PT"]
            cases.append(AeadCase(raw["Key"], raw["IV"], raw["AAD"], raw["CT"] + raw["Tag"], plaintext))
    return cases


def chacha20_poly1305_cases() -> list[AeadCase]:
    """All with nonces of 96 bits and whole tags."""
    cases = []
    text = _folder("ciphers", "ChaCha20Poly1305").joinpath("boringssl.txt").read_text()
    for block in text.split("\n\n"):
        raw = {name: _value(value) for name, value in _fields(block) if name not in {"COUNT", "TAG_LEN"}}
        if len(raw.get("NONCE", b"")) == 12 and len(raw["TAG"]) == 16 and "TAG_LEN" not in block:
            cases.append(AeadCase(raw["KEY"], raw["NONCE"], raw["AD"], raw["CT"] + raw["TAG"], raw["IN"]))
    return cases


def _folder(*names: str) -> Traversable:
    return files("cryptography_vectors").joinpath(*names)


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        if not line.startswith("#"):
            name, _, value = line.strip(" []").partition("=")
            yield name.strip(), value.strip()


def _value(text: str) -> bytes:
    """Hexadecimal, or a text in quotes."""
    return text[1:-1].encode() if text.startswith('"') else bytes.fromhex(text)
