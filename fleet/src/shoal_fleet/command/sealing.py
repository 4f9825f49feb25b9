"""How does a release folder become sealed files and a manifest?"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from shoal_wire import sealed_file
from shoal_wire.errors import WireError
from shoal_wire.manifest import DraftFile, Manifest, ReleaseDraft, SealedFile, parse_draft

from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.publisher import Publisher

DRAFT = "release.json"


def read_draft(folder: Path) -> ReleaseDraft:
    """The draft in a release folder.

    Raises:
        UsageError: there is none, or it isn't as agreed.
    """
    path = folder / DRAFT
    try:
        return parse_draft(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} is not there: a release folder holds {DRAFT} and the files that it names") from None
    except WireError as error:
        raise UsageError(f"{path}: {error}") from None


def seal_parts(folder: Path, file: DraftFile, publisher: Publisher) -> tuple[SealedFile, Iterator[bytes]]:
    """What the manifest says of a file, and its sealed bytes in parts.

    Raises:
        UsageError: the file is not in the folder.
    """
    plaintext = _read(folder, file)
    plaintext_sha256 = hashlib.sha256(plaintext).hexdigest()
    content_key = publisher.content_key(plaintext_sha256)
    digests = sealed_file.digest(sealed_file.seal(plaintext, content_key))
    described = SealedFile(
        name=file.name,
        role=file.role,
        plaintext_sha256=plaintext_sha256,
        plaintext_bytes=len(plaintext),
        ciphertext_sha256=digests.ciphertext_sha256,
        ciphertext_bytes=digests.ciphertext_bytes,
        chunk_bytes=sealed_file.CHUNK_BYTES,
        chunk_sha256s=digests.chunk_sha256s,
        suite=sealed_file.AES_256_GCM,
    )
    return described, sealed_file.seal(plaintext, content_key)


def make_manifest(draft: ReleaseDraft, files: tuple[SealedFile, ...]) -> Manifest:
    """The manifest of a draft whose files were sealed."""
    fields = {field.name: getattr(draft, field.name) for field in msgspec.structs.fields(draft)}
    return Manifest(**{**fields, "files": files})


def _read(folder: Path, file: DraftFile) -> bytes:
    path = (folder / file.path).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UsageError(f"{folder / DRAFT}: the file {file.name!r} lies outside the folder ({file.path})")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {DRAFT} names it as {file.name!r}") from None
