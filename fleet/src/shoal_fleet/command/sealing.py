"""How does a release folder become sealed files and a manifest?"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from shoal_wire import sealed_file
from shoal_wire.errors import WireError
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
    """The parts of a sealed file that `make_manifest` has described.

    Raises:
        CommandError: the file was changed since. Sealed under its old content key, it would give both texts away.
    """
    plaintext = _read(folder, file)
    if hashlib.sha256(plaintext).hexdigest() != expected.plaintext_sha256:
        raise CommandError(f"{folder / file.path}: was changed while it was being released; run the command again")
    return sealed_file.seal(plaintext, publisher.content_key(expected.plaintext_sha256))


def _describe(folder: Path, file: DraftFile, publisher: Publisher) -> SealedFile:
    plaintext = _read(folder, file)
    plaintext_sha256 = hashlib.sha256(plaintext).hexdigest()
    digests = sealed_file.digest(sealed_file.seal(plaintext, publisher.content_key(plaintext_sha256)))
    return SealedFile(
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


def _read(folder: Path, file: DraftFile) -> bytes:
    where = f"{folder / DRAFT}: the file {file.name!r}"
    try:
        path = (folder / file.path).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise UsageError(f"{where} lies outside the folder ({file.path})")
        if path.exists() and not path.is_file():
            raise UsageError(f"{where} is no regular file ({file.path})")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{where} can't be read ({file.path}): {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{where} has a path that no file can have ({file.path!r})") from None
