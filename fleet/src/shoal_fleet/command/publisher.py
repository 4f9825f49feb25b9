"""What does a publisher keep, offline, so that nobody else can make a release?

A folder of mode 0700 that the fleet never sees:

    root.pem, targets.pem    the TUF keys (PKCS#8, encrypted where a passphrase was given)
    publisher.json           the fleet's public keys, as they were when the keys were made
    signed/N.targets.json    each version of the targets metadata that this publisher signed
    content-keys/SHA256.json the content key of each distinct plaintext: a later release refers to the same sealed file
"""

import base64
import os
import secrets
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from securesystemslib.signer import CryptoSigner
from shoal_wire.encoding import Bytes64, Sha256, decode_struct
from shoal_wire.errors import Malformed
from shoal_wire.sealed_file import KEY_BYTES

from shoal_fleet.command.errors import CommandError, UsageError


class FleetKeys(msgspec.Struct, frozen=True):
    """Public keys of a fleet, as `shoal-fleet init` prints them: Ed25519 as SubjectPublicKeyInfo, HPKE as 32 bytes."""

    snapshot: Bytes64
    timestamp: Bytes64
    assignment: Bytes64
    hpke: Bytes64


class ContentKey(msgspec.Struct, frozen=True):
    """The key that seals one plaintext."""

    plaintext_sha256: Sha256
    key: Bytes64


class Publisher:
    """A publisher's folder."""

    def __init__(self, folder: Path, *, passphrase: bytes | None) -> None:
        self.folder = folder
        self._passphrase = passphrase

    def create(self, fleet: FleetKeys) -> None:
        """Make the keys. Running it again with the same fleet changes nothing.

        Raises:
            UsageError: the folder belongs to another fleet.
        """
        path = self.folder / "publisher.json"
        if path.exists():
            if self.fleet_keys() != fleet:
                raise UsageError(f"{self.folder} holds the keys for another fleet; choose another folder")
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for role in ("root", "targets"):
            if not self._key_file(role).exists():
                _write(self._key_file(role), self._pem(ed25519.Ed25519PrivateKey.generate()))
        _write(path, msgspec.json.encode(fleet))

    def fleet_keys(self) -> FleetKeys:
        """The fleet that the keys were made for.

        Raises:
            UsageError: there are no keys in the folder.
        """
        path = self.folder / "publisher.json"
        try:
            return decode_struct(path.read_bytes(), FleetKeys, what=str(path))
        except FileNotFoundError:
            raise UsageError(f"{path} is not there: run `shoal keys init --publisher {self.folder}` first") from None

    def signer(self, role: str) -> CryptoSigner:
        """Signs TUF metadata as `root` or `targets`.

        Raises:
            UsageError: no key, or another passphrase.
        """
        path = self._key_file(role)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), self._passphrase)
        except FileNotFoundError:
            raise UsageError(f"{path} is not there: run `shoal keys init --publisher {self.folder}` first") from None
        except (TypeError, ValueError):
            raise UsageError(f"{path}: can't be read with that passphrase (--passphrase-file)") from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise UsageError(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
        return CryptoSigner(key)

    def content_key(self, plaintext_sha256: str) -> bytes:
        """The key of that plaintext: the one it was sealed with before, or a new one that is on disk on return."""
        path = self.folder / "content-keys" / f"{plaintext_sha256}.json"
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
            _write(path, msgspec.json.encode(ContentKey(plaintext_sha256, key)))
        try:
            return base64.b64decode(decode_struct(path.read_bytes(), ContentKey, what=str(path)).key)
        except Malformed as error:
            raise CommandError(f"{error}: restore the publisher's folder from a copy") from None

    def last_signed(self) -> bytes | None:
        """The newest targets metadata that this publisher signed and the fleet took."""
        folder = self.folder / "signed"
        versions = [int(path.name.split(".")[0]) for path in folder.glob("*.targets.json")]
        return (folder / f"{max(versions)}.targets.json").read_bytes() if versions else None

    def record_signed(self, targets: bytes, *, version: int) -> None:
        """Remember what the fleet took, so that it can't offer something older next time."""
        (self.folder / "signed").mkdir(mode=0o700, exist_ok=True)
        _write(self.folder / "signed" / f"{version}.targets.json", targets)

    def _key_file(self, role: str) -> Path:
        return self.folder / f"{role}.pem"

    def _pem(self, key: ed25519.Ed25519PrivateKey) -> bytes:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if self._passphrase:
            encryption = serialization.BestAvailableEncryption(self._passphrase)
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, mode 0600, on disk on return."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
