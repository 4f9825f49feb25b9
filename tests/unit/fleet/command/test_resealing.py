"""Does a file come under another key with the same contents, and only where that is needed?"""

import hashlib
import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from shoal_fleet.command.content_keys import ContentKeys
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.resealing import Resealed
from shoal_wire import sealed_file
from shoal_wire.manifest import SealedFile

CHUNK = 16


class Sealed:
    """A sealed file of several chunks, with the keys of its publisher."""

    def __init__(self, folder: Path, plaintext: bytes) -> None:
        self.plaintext = plaintext
        self.keys = ContentKeys(folder)
        sha256 = hashlib.sha256(plaintext).hexdigest()
        parts = list(sealed_file.seal(plaintext, self.keys.get(sha256), chunk_bytes=CHUNK))
        digests = sealed_file.digest(parts)
        self.raw = b"".join(parts)
        self.file = SealedFile(
            name="model",
            role="model",
            plaintext_sha256=sha256,
            plaintext_bytes=len(plaintext),
            ciphertext_sha256=digests.ciphertext_sha256,
            ciphertext_bytes=digests.ciphertext_bytes,
            chunk_bytes=CHUNK,
            chunk_sha256s=digests.chunk_sha256s,
            suite="aes-256-gcm",
        )

    def reseal(self, *, renews: bool = True) -> Resealed:
        return Resealed(self.file, io.BytesIO(self.raw), self.keys, renews=renews)


@pytest.fixture(params=[b"", b"w" * CHUNK, b"weights" * 9], ids=["empty", "one-chunk", "more"])
def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> Sealed:
    return Sealed(tmp_path, request.param)


def test_same_contents_come_under_another_key(sealed: Sealed) -> None:
    resealed = sealed.reseal()
    raw = b"".join(resealed.parts())
    assert resealed.is_changed
    assert hashlib.sha256(raw).hexdigest() == resealed.file.ciphertext_sha256 != sealed.file.ciphertext_sha256
    cut = sealed_file.read_parts(io.BytesIO(raw).read)
    assert b"".join(sealed_file.unseal(cut, sealed.keys.get(sealed.file.plaintext_sha256))) == sealed.plaintext


def test_run_that_was_cut_off_goes_on_with_the_key_that_it_made(sealed: Sealed) -> None:
    first = sealed.reseal().file
    assert sealed.reseal().file == first
    assert len(sealed.keys.all(sealed.file.plaintext_sha256)) == 2


def test_file_under_the_present_key_stays_where_no_other_is_wanted(sealed: Sealed) -> None:
    resealed = sealed.reseal(renews=False)
    assert not resealed.is_changed
    assert len(sealed.keys.all(sealed.file.plaintext_sha256)) == 1


def test_file_under_an_earlier_key_comes_under_the_present_one(sealed: Sealed) -> None:
    sealed.keys.renew(sealed.file.plaintext_sha256)
    assert sealed.reseal(renews=False).is_changed


def test_file_of_another_publisher_is_refused(sealed: Sealed, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="file model: this publisher's folder holds no key that opens it"):
        Resealed(sealed.file, io.BytesIO(sealed.raw), ContentKeys(tmp_path / "other"), renews=True)


def test_damage_beyond_the_first_chunk_is_found_before_anything_is_described(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, b"weights" * 9)
    sealed.raw = sealed.raw[:-1] + bytes([sealed.raw[-1] ^ 1])
    with pytest.raises(CommandError, match="isn't what was sealed there"):
        sealed.reseal()


def test_other_contents_than_the_manifest_says_are_refused(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, b"weights" * 9)
    key = sealed.keys.get(sealed.file.plaintext_sha256)
    sealed.raw = b"".join(sealed_file.seal(b"Weights" * 9, key, chunk_bytes=CHUNK))
    with pytest.raises(CommandError, match="opens to other bytes"):
        sealed.reseal()


def test_what_changed_after_it_was_described_is_not_sent(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path, b"weights" * 9)
    resealed = sealed.reseal()
    resealed.file = replace(resealed.file, chunk_sha256s=("0" * 64,) * len(resealed.file.chunk_sha256s))
    with pytest.raises(CommandError, match="run the command again"):
        next(resealed.parts())
