"""How does a release folder become sealed files and a manifest?"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from shoal_wire import sealed_file
from shoal_wire.errors import Malformed, WireError
from shoal_wire.manifest import DraftFile, Manifest, ReleaseDraft, SealedFile, parse_draft

from shoal_fleet.command.errors import CommandError, UsageError
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
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except WireError as error:
        raise UsageError(f"{folder}: {error}") from None


def make_manifest(folder: Path, draft: ReleaseDraft, publisher: Publisher) -> Manifest:
    """The manifest that a draft will have once its files are sealed. The same folder always gives the same one.

    Raises:
        UsageError: a file is not in the folder.
    """
    files = tuple(_describe(folder, file, publisher) for file in draft.files)
    fields = {field.name: getattr(draft, field.name) for field in msgspec.structs.fields(draft)}
    return Manifest(**{**fields, "files": files})


def seal(folder: Path, file: DraftFile, publisher: Publisher, *, expected: SealedFile) -> Iterator[bytes]:
    """The parts of a sealed file that `make_manifest` has described, one in memory at a time.

    Raises:
        CommandError: the file was changed since. Sealed under its old content key, it would give both texts away: so
            each part is compared with its digest before it is handed out.
    """
    with _open(folder, file) as plain:
        parts = sealed_file.seal_stream(
            plain.read,
            publisher.content_keys.get(expected.plaintext_sha256),
            plaintext_bytes=expected.plaintext_bytes,
            chunk_bytes=expected.chunk_bytes,
        )
        try:
            yield from check_parts(parts, expected)
        except Malformed:
            raise CommandError(
                f"{folder / file.path}: was changed while it was being released; run the command again"
            ) from None


def check_parts(parts: Iterator[bytes], expected: SealedFile) -> Iterator[bytes]:
    """The same parts, each once it has the digest that the manifest says.

    Raises:
        Malformed: one has another.
    """
    header = next(parts)
    for index, part in enumerate(parts):
        ahead = header if index == 0 else b""  # the first digest covers the header as well
        if hashlib.sha256(ahead + part).hexdigest() != expected.chunk_sha256s[index]:
            raise Malformed(f"file {expected.name}: chunk {index} isn't the one that the manifest describes")
        if index == 0:
            yield header
        yield part


def _describe(folder: Path, file: DraftFile, publisher: Publisher) -> SealedFile:
    plaintext_sha256, plaintext_bytes = _digest(folder, file)
    with _open(folder, file) as plain:
        parts = sealed_file.seal_stream(
            plain.read, publisher.content_keys.get(plaintext_sha256), plaintext_bytes=plaintext_bytes
        )
        try:
            digests = sealed_file.digest(parts)
        except Malformed as error:
            raise CommandError(
                f"{folder / file.path}: {error}; was it changed meanwhile? Run the command again"
            ) from None
    return SealedFile(
        name=file.name,
        role=file.role,
        plaintext_sha256=plaintext_sha256,
        plaintext_bytes=plaintext_bytes,
        ciphertext_sha256=digests.ciphertext_sha256,
        ciphertext_bytes=digests.ciphertext_bytes,
        chunk_bytes=sealed_file.CHUNK_BYTES,
        chunk_sha256s=digests.chunk_sha256s,
        suite=sealed_file.AES_256_GCM,
    )


def _digest(folder: Path, file: DraftFile) -> tuple[str, int]:
    """SHA-256 and size of a file."""
    digest, size_bytes = hashlib.sha256(), 0
    with _open(folder, file) as plain:
        while part := plain.read(sealed_file.CHUNK_BYTES):
            digest.update(part)
            size_bytes += len(part)
    return digest.hexdigest(), size_bytes


def _open(folder: Path, file: DraftFile) -> BinaryIO:
    where = f"{folder / DRAFT}: the file {file.name!r}"
    try:
        path = (folder / file.path).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise UsageError(f"{where} lies outside the folder ({file.path})")
        if path.exists() and not path.is_file():
            raise UsageError(f"{where} is no regular file ({file.path})")
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"{where} can't be read ({file.path}): {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{where} has a path that no file can have ({file.path!r})") from None
