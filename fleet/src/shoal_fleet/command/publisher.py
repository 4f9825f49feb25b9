"""What does a publisher keep, offline, so that nobody else can make a release?

A folder of mode 0700 that the fleet never sees:

    root.pem, targets.pem    the TUF keys (PKCS#8, encrypted where a passphrase was given), unless they are elsewhere
    publisher.json           the fleet's public keys; which keys of the publisher count, by URI, and how many must sign
    signed/N.ROLE.json       metadata of each role that this publisher signed and the fleet took
    released.json            releases that were published from this folder
    authorities.json         the authorities of the fleet that were named from this folder last
    pending/*.json           what others must sign too before it can be published
    content-keys/            the content key of each distinct plaintext (`content_keys.py`)

The passphrase covers the TUF keys only: who has the folder can read the releases, but can't make one.
"""

import fcntl
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from securesystemslib.signer import Signer
from shoal_wire.encoding import Bytes64, decode_by, decode_struct
from shoal_wire.envelope import parse_public_key
from shoal_wire.errors import Malformed
from shoal_wire.grant import parse_hpke_public
from shoal_wire.hybrid_key import HybridPublicKey, parse_hybrid_public
from shoal_wire.metadata import parse_authorities

from shoal_fleet.command.content_keys import ContentKeys
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.key_uris import KeyName, Secrets, adopt_key, open_signer
from shoal_fleet.command.private_files import make_private_folder, write_private

ROLES = ("root", "targets")
"""The publisher's roles in TUF: keys that name keys, and keys that sign releases."""

_PATHS = msgspec.json.Decoder(list[str])
_MAX_PATHS_BYTES = 64 << 20
_SIGNED = re.compile(r"([1-9][0-9]*)\.([a-z0-9-]+)\.json")


class FleetKeys(msgspec.Struct, frozen=True):
    """Public keys of a fleet, as `shoal-fleet init` prints them: Ed25519 as SubjectPublicKeyInfo, HPKE as 32 bytes."""

    snapshot: Bytes64
    timestamp: Bytes64
    assignment: Bytes64
    hpke: Bytes64
    hybrid: Bytes64 | None = None
    """ML-KEM-768 with X25519; None from a fleet that has no such key."""

    def check(self) -> None:
        """Make sure that they are keys.

        Raises:
            Malformed: names the one that isn't.
        """
        for name in ("snapshot", "timestamp", "assignment"):
            what = f"the fleet's {name} key"
            if not isinstance(parse_public_key(getattr(self, name), what=what), ed25519.Ed25519PublicKey):
                raise Malformed(f"{what}: expected an Ed25519 key, found one of another kind")
        self.recipient_key()

    def recipient_key(self) -> X25519PublicKey | HybridPublicKey:
        """What content keys are sealed to: the hybrid key where the fleet has one.

        Raises:
            Malformed: it is no key.
        """
        x25519_key = parse_hpke_public(self.hpke, what="the fleet's HPKE key")
        return x25519_key if self.hybrid is None else parse_hybrid_public(self.hybrid, what="the fleet's hybrid key")

    def is_of_fleet(self, other: "FleetKeys") -> bool:
        """Whether both are of one fleet, of which one may be from before it had a hybrid key."""
        return self == other or msgspec.structs.replace(self, hybrid=None) == msgspec.structs.replace(
            other, hybrid=None
        )


class RoleKeys(msgspec.Struct, frozen=True):
    """Who signs for a role."""

    threshold: int
    """How many of the keys must sign."""
    keys: tuple[KeyName, ...]


class Description(FleetKeys, frozen=True):
    """Content of publisher.json. One of before names no keys: then they are root.pem and targets.pem."""

    root: RoleKeys | None = None
    targets: RoleKeys | None = None


class Publisher:
    """A publisher's folder."""

    def __init__(self, folder: Path, *, passphrase: bytes | None, pin: str | None = None) -> None:
        self.folder = folder
        self.content_keys = ContentKeys(folder / "content-keys")
        self._secrets = Secrets(passphrase, pin)

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

    def create(self, fleet: FleetKeys, *, keys: Mapping[str, RoleKeys] = {}) -> None:
        """Keep which keys count, by role; a role that isn't named gets one key in a file of its name.

        Running it again with the same fleet changes nothing.

        Raises:
            UsageError: the folder belongs to another fleet.
        """
        make_private_folder(self.folder)
        with self.locked():
            if self.exists():
                if not self.fleet_keys().is_of_fleet(fleet):
                    raise UsageError(f"{self.folder} holds the keys for another fleet; choose another folder")
                if self.fleet_keys().hybrid is None and fleet.hybrid is not None:
                    self.replace_keys({role: self.role_keys(role) for role in ROLES}, fleet=fleet)
                return
            made = {role: keys.get(role) or RoleKeys(1, (self.adopt(f"file:{role}.pem"),)) for role in ROLES}
            self.replace_keys(made, fleet=fleet)

    def adopt(self, uri: str) -> KeyName:
        """Take a key in by its URI; a file that isn't there is made.

        Raises:
            UsageError, CommandError: see `key_uris.adopt_key`.
        """
        make_private_folder(self.folder)
        return adopt_key(uri, folder=self.folder, secrets=self._secrets)

    def fleet_keys(self) -> FleetKeys:
        """The fleet that the keys were made for.

        Raises:
            UsageError: there are no keys in the folder.
            CommandError: the file is damaged.
        """
        described = self._read()
        return FleetKeys(**{field: getattr(described, field) for field in FleetKeys.__struct_fields__})

    def role_keys(self, role: str) -> RoleKeys:
        """Who signs for a role.

        Raises:
            UsageError, CommandError: as `fleet_keys`; of a folder of before, also as `signers`.
        """
        kept: RoleKeys | None = getattr(self._read(), role)
        if kept is not None:
            return kept
        path = self.folder / f"{role}.pem"
        if not path.exists():
            raise self._not_there(path)
        return RoleKeys(1, (self.adopt(f"file:{path.name}"),))

    def replace_keys(self, keys: Mapping[str, RoleKeys], *, fleet: FleetKeys) -> None:
        """Keep that these keys count from now on: call it once the fleet took the metadata that says so."""
        fields: dict[str, Any] = {field: getattr(fleet, field) for field in FleetKeys.__struct_fields__}
        described = Description(**fields, root=keys.get("root"), targets=keys.get("targets"))
        write_private(self._description(), msgspec.json.encode(described))

    def signers(self, wanted: Collection[str], *, also: Mapping[str, RoleKeys] = {}) -> list[Signer]:
        """Sign TUF metadata, with each of the wanted keys (by id) that can be reached here.

        `also` are keys that are to count from then on.

        Raises:
            UsageError, CommandError: none can; why the first can't.
        """
        names = [name for role in ROLES for name in self.role_keys(role).keys]
        names += [name for keys in also.values() for name in keys.keys]
        found: dict[str, Signer] = {}
        reasons: list[CommandError] = []
        for name in names:
            if name.keyid not in wanted or name.keyid in found:
                continue
            try:
                found[name.keyid] = open_signer(name, folder=self.folder, secrets=self._secrets)
            except CommandError as error:
                reasons.append(error)
        if not found and reasons:
            raise reasons[0]
        return list(found.values())

    def last_signed(self, role: str = "targets") -> bytes | None:
        """The newest metadata of a role that this publisher signed and the fleet took; None before the first."""
        version = self._signed().get(role)
        return None if version is None else self._signed_file(role, version).read_bytes()

    def signed_roles(self) -> list[str]:
        """Roles of which metadata was signed here."""
        return sorted(self._signed())

    def record_signed(self, raw: bytes, *, version: int, role: str = "targets") -> None:
        """Remember what the fleet took, so that it can't offer something older next time."""
        path = self._signed_file(role, version)
        make_private_folder(path.parent)
        write_private(path, raw)

    def released(self) -> list[str] | None:
        """Paths of the releases that were published from this folder; None in one that has kept none yet.

        What metadata lists isn't the same: a thief's releases are in what is signed next.

        Raises:
            CommandError: the file is damaged.
        """
        path = self.folder / "released.json"
        try:
            return decode_by(_PATHS, path.read_bytes(), what=str(path), limit_bytes=_MAX_PATHS_BYTES)
        except FileNotFoundError:
            return None
        except Malformed as error:
            raise _damaged(error) from None

    def record_released(self, paths: Iterable[str]) -> None:
        """Remember which releases were published from this folder, all of them."""
        write_private(self.folder / "released.json", msgspec.json.encode(sorted(set(paths))))

    def authorities(self) -> tuple[x509.Certificate, ...]:
        """The authorities of the fleet that were named from this folder last; none before the first time.

        Raises:
            CommandError: the file is damaged.
        """
        path = self.folder / "authorities.json"
        try:
            return parse_authorities(path.read_bytes())
        except FileNotFoundError:
            return ()
        except Malformed as error:
            raise _damaged(Malformed(f"{path}: {error}")) from None

    def record_authorities(self, raw: bytes) -> None:
        """Remember which authorities the fleet took from here: the content of the target."""
        write_private(self.folder / "authorities.json", raw)

    def pending_file(self, title: str) -> Path:
        """Where what others must sign too waits for them."""
        path = self.folder / "pending" / f"{title}.json"
        make_private_folder(path.parent)
        return path

    def _signed(self) -> dict[str, int]:
        """Newest version by role."""
        newest: dict[str, int] = {}
        for path in (self.folder / "signed").glob("*.json"):
            match = _SIGNED.fullmatch(path.name)
            if match:
                newest[match[2]] = max(newest.get(match[2], 0), int(match[1]))
        return newest

    def _read(self) -> Description:
        path = self._description()
        try:
            described = decode_struct(path.read_bytes(), Description, what=str(path))
            described.check()
        except FileNotFoundError:
            raise self._not_there(path) from None
        except Malformed as error:
            raise _damaged(error) from None
        return described

    def _description(self) -> Path:
        return self.folder / "publisher.json"

    def _signed_file(self, role: str, version: int) -> Path:
        return self.folder / "signed" / f"{version}.{role}.json"

    def _not_there(self, path: Path) -> UsageError:
        if self.exists():
            return UsageError(f"{path} is missing: restore the publisher's folder from a copy")
        return UsageError(f"{path} is not there: run `shoal keys init --publisher {self.folder}` first")


def _damaged(error: Malformed) -> CommandError:
    return CommandError(f"{error}; restore the publisher's folder from a copy")
