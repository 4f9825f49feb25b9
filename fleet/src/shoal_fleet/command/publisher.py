"""What does a publisher keep, offline, so that nobody else can make a release?

A folder of mode 0700 that the fleet never sees:

    root.pem, targets.pem    the TUF keys (PKCS#8, encrypted where a passphrase was given)
    publisher.json           the fleet's public keys, as they were when the keys were made
    signed/N.targets.json    each version of the targets metadata that this publisher signed and the fleet took
    content-keys/SHA256.json the content key of each distinct plaintext: a later release refers to the same sealed file

The passphrase covers the TUF keys only: who has the folder can read the releases, but can't make one.
"""

import base64
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from securesystemslib.signer import CryptoSigner
from shoal_wire.encoding import Bytes64, Sha256, decode_base64, decode_struct
from shoal_wire.envelope import parse_public_key
from shoal_wire.errors import Malformed
from shoal_wire.grant import parse_hpke_public
from shoal_wire.sealed_file import KEY_BYTES

from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.private_files import make_private_folder, write_private

_ROLES = ("root", "targets")
_SIGNED = ".targets.json"


class FleetKeys(msgspec.Struct, frozen=True):
    """Public keys of a fleet, as `shoal-fleet init` prints them: Ed25519 as SubjectPublicKeyInfo, HPKE as 32 bytes."""

    snapshot: Bytes64
    timestamp: Bytes64
    assignment: Bytes64
    hpke: Bytes64

    def check(self) -> None:
        """Make sure that they are keys.

        Raises:
            Malformed: names the one that isn't.
        """
        for name in ("snapshot", "timestamp", "assignment"):
            what = f"the fleet's {name} key"
            if not isinstance(parse_public_key(getattr(self, name), what=what), ed25519.Ed25519PublicKey):
                raise Malformed(f"{what}: expected an Ed25519 key, found one of another kind")
        parse_hpke_public(self.hpke, what="the fleet's HPKE key")


class ContentKey(msgspec.Struct, frozen=True):
    """The key that seals one plaintext."""

    plaintext_sha256: Sha256
    key: Bytes64


class Publisher:
    """A publisher's folder."""

    def __init__(self, folder: Path, *, passphrase: bytes | None) -> None:
        self.folder = folder
        self._passphrase = passphrase

    def exists(self) -> bool:
        """Whether `create` was done here."""
        return self._description().exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands out of the folder meanwhile: two of them would sign two versions of one number.

        Raises:
            UsageError: there is no folder.
            CommandError: another command is at work in it.
        """
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise self._not_there(self.folder) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise CommandError(f"{self.folder}: another `shoal` is at work in it; wait until it has ended") from None
        finally:
            os.close(descriptor)

    def create(self, fleet: FleetKeys) -> None:
        """Make the keys. Running it again with the same fleet changes nothing.

        Raises:
            UsageError: the folder belongs to another fleet.
        """
        make_private_folder(self.folder)
        with self.locked():
            if self.exists():
                if self.fleet_keys() != fleet:
                    raise UsageError(f"{self.folder} holds the keys for another fleet; choose another folder")
                return
            for role in _ROLES:
                if not self._key_file(role).exists():
                    write_private(self._key_file(role), self._pem(ed25519.Ed25519PrivateKey.generate()))
            write_private(self._description(), msgspec.json.encode(fleet))

    def fleet_keys(self) -> FleetKeys:
        """The fleet that the keys were made for.

        Raises:
            UsageError: there are no keys in the folder.
            CommandError: the file is damaged.
        """
        path = self._description()
        try:
            fleet = decode_struct(path.read_bytes(), FleetKeys, what=str(path))
            fleet.check()
        except FileNotFoundError:
            raise self._not_there(path) from None
        except Malformed as error:
            raise _damaged(error) from None
        return fleet

    def signer(self, role: str) -> CryptoSigner:
        """Signs TUF metadata as `root` or `targets`.

        Raises:
            UsageError: no key, or another passphrase.
        """
        path = self._key_file(role)
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), self._passphrase)
        except FileNotFoundError:
            raise self._not_there(path) from None
        except TypeError:  # one of the two, key and caller, has a passphrase
            why = "is encrypted: give" if self._passphrase is None else "isn't encrypted: leave out"
            raise UsageError(f"{path}: {why} --passphrase-file") from None
        except (ValueError, UnsupportedAlgorithm):
            raise UsageError(f"{path}: can't be read: the passphrase is another, or the file is damaged") from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise UsageError(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
        return CryptoSigner(key)

    def content_key(self, plaintext_sha256: str) -> bytes:
        """The key of that plaintext: the one it was sealed with before, or a new one that is on disk on return.

        Raises:
            CommandError: the file of the key is damaged.
        """
        path = self.folder / "content-keys" / f"{plaintext_sha256}.json"
        if not path.exists():
            make_private_folder(path.parent)
            key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
            write_private(path, msgspec.json.encode(ContentKey(plaintext_sha256, key)))
        try:
            kept = decode_struct(path.read_bytes(), ContentKey, what=str(path))
            raw = decode_base64(kept.key, what=str(path))
        except Malformed as error:
            raise _damaged(error) from None
        if kept.plaintext_sha256 != plaintext_sha256 or len(raw) != KEY_BYTES:
            raise _damaged(Malformed(f"{path}: expected the key of that plaintext, {KEY_BYTES} bytes"))
        return raw

    def last_signed(self) -> bytes | None:
        """The newest targets metadata that this publisher signed and the fleet took; None before the first."""
        names = [path.name.removesuffix(_SIGNED) for path in (self.folder / "signed").glob(f"*{_SIGNED}")]
        versions = [int(name) for name in names if name.isdecimal()]
        return self._signed_file(max(versions)).read_bytes() if versions else None

    def record_signed(self, targets: bytes, *, version: int) -> None:
        """Remember what the fleet took, so that it can't offer something older next time."""
        path = self._signed_file(version)
        make_private_folder(path.parent)
        write_private(path, targets)

    def _description(self) -> Path:
        return self.folder / "publisher.json"

    def _key_file(self, role: str) -> Path:
        return self.folder / f"{role}.pem"

    def _signed_file(self, version: int) -> Path:
        return self.folder / "signed" / f"{version}{_SIGNED}"

    def _pem(self, key: ed25519.Ed25519PrivateKey) -> bytes:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if self._passphrase is not None:
            encryption = serialization.BestAvailableEncryption(self._passphrase)
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def _not_there(self, path: Path) -> UsageError:
        if self.exists():
            return UsageError(f"{path} is missing: restore the publisher's folder from a copy")
        return UsageError(f"{path} is not there: run `shoal keys init --publisher {self.folder}` first")


def _damaged(error: Malformed) -> CommandError:
    return CommandError(f"{error}; restore the publisher's folder from a copy")
