"""Do the ciphers of a sealed file give what was published, and refuse what must be refused?

A sealed file derives key and nonce, so no published ciphertext can be one. The vectors are held against the ciphers
that it takes; that a whole file is made of them as the document says, `tests/vectors` shows.
"""

import io
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from shoal_wire import sealed_file
from shoal_wire.errors import Damaged
from shoal_wire.sealed_file import AES_256_GCM, CHACHA20_POLY1305, HEADER_BYTES, TAG_BYTES

from tests.conformance.published_vectors import AeadCase, aes_256_gcm_cases, chacha20_poly1305_cases

KEY = bytes(range(32))

Cipher = Callable[[bytes], AESGCM | ChaCha20Poly1305]


@pytest.mark.parametrize(
    ("cipher", "cases", "refused"),
    [(AESGCM, aes_256_gcm_cases(), 150), (ChaCha20Poly1305, chacha20_poly1305_cases(), 0)],
    ids=["aes-256-gcm", "chacha20-poly1305"],
)
def test_published_vectors(cipher: Cipher, cases: list[AeadCase], refused: int) -> None:
    assert len(cases) > 60
    assert sum(case.plaintext is None for case in cases) >= refused
    for case in cases:
        made = cipher(case.key)
        if case.plaintext is None:
            with pytest.raises(InvalidTag):
                made.decrypt(case.nonce, case.sealed, case.associated)
        else:
            assert made.decrypt(case.nonce, case.sealed, case.associated) == case.plaintext
            assert made.encrypt(case.nonce, case.plaintext, case.associated) == case.sealed


@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
def test_every_changed_bit_of_a_tag_is_refused(suite: str) -> None:
    """Wycheproof's cases "Flipped bit … in tag", all of them."""
    sealed = b"".join(sealed_file.seal(bytes(20), KEY, suite=suite, chunk_bytes=16))
    ends = (HEADER_BYTES + 16 + TAG_BYTES, len(sealed))
    for place in (end - back for end in ends for back in range(1, TAG_BYTES + 1)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[place] ^= 1 << bit
            with pytest.raises(Damaged):
                list(sealed_file.unseal(sealed_file.read_parts(io.BytesIO(changed).read), KEY))


@pytest.mark.parametrize("tag", [bytes(16), b"\xff" * 16, b"\x80" + bytes(15), bytes(15) + b"\1"])
@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
def test_no_tag_passes_for_every_file(suite: str, tag: bytes) -> None:
    """Wycheproof's cases "tag set to all 0", "to all 1" and the like."""
    sealed = b"".join(sealed_file.seal(bytes(5), KEY, suite=suite, chunk_bytes=16))
    with pytest.raises(Damaged):
        list(sealed_file.unseal(sealed_file.read_parts(io.BytesIO(sealed[:-16] + tag).read), KEY))
