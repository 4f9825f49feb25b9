"""What does a publisher's next metadata say? Rules over TUF metadata; no file, no connection and no private key.

A change begins with what is present, is told what to do, and ends with the next version of each role that it touched,
not yet signed. Releases are moved into bins with the first change that finds them listed by the targets metadata.
"""

import base64
import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_der_public_key
from securesystemslib.signer import Key, SSlibKey
from shoal_wire.encoding import encode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, AssignmentKeys
from shoal_wire.metadata import (
    AUTHORITIES_PATH,
    BIN_PREFIX,
    FLOORS_PATH,
    RELEASES_PER_BIN,
    SIGNED_AT,
    FleetAuthorities,
    Floors,
    bit_length_for,
    is_own_path,
)
from tuf.api.metadata import Delegations, Metadata, Role, Root, SuccinctRoles, TargetFile, Targets

from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.present import Present

ROOT_LIFETIME = timedelta(days=365)
TARGETS_LIFETIME = timedelta(days=90)

FULL_BIN = RELEASES_PER_BIN * 3 // 2
"""Releases in one bin at which it is counted whether there should be more bins: they are never all equally full."""

_ONLINE = ("snapshot", "timestamp")

_Signed = TypeVar("_Signed", Root, Targets)


class Signatories(NamedTuple):
    """Whose signatures a role needs."""

    threshold: int
    keys: Sequence[Key]


class NextMetadata(NamedTuple):
    """What is to be signed: the next version of each role that changed; and targets whose bytes go along."""

    root: Metadata[Root] | None
    targets: Metadata[Targets] | None
    bins: Mapping[str, Metadata[Targets]]
    files: Mapping[str, bytes]


def first_root(publisher: Mapping[str, Signatories], online: Mapping[str, str], *, now: datetime) -> Metadata[Root]:
    """Root metadata, version 1: which keys count for which role. `online` are public keys of the fleet by role."""
    content = Root(expires=_expiry(now, ROOT_LIFETIME), consistent_snapshot=True)
    for role, signatories in publisher.items():
        _set_keys(content, role, signatories)
    for role in _ONLINE:
        _set_keys(content, role, Signatories(1, [online_key(online[role])]))
    return Metadata(_dated(content, now))


def first_targets(assignment_key: str, *, now: datetime) -> tuple[Metadata[Targets], bytes]:
    """Targets metadata, version 1, and its only target: the key that signs assignments."""
    keys = encode(AssignmentKeys(keys=(assignment_key,)))
    content = Targets(expires=_expiry(now, TARGETS_LIFETIME))
    content.targets[ASSIGNMENT_KEYS_PATH] = describe(ASSIGNMENT_KEYS_PATH, keys)
    return Metadata(_dated(content, now)), keys


def lists(present: Present, path: str, manifest: bytes) -> bool:
    """Whether that very manifest is released.

    Raises:
        CommandError: another one is released at that path.
    """
    found = present.find(path)
    if found is None:
        return False
    if found != describe(path, manifest):
        raise CommandError(f"{path} was released before with other content: a release never changes, raise its version")
    return True


def describe(path: str, content: bytes) -> TargetFile:
    """A target as it is listed."""
    return TargetFile.from_data(path, content, ["sha256"])


def online_key(text: str) -> SSlibKey:
    """A key of the fleet, as it prints them."""
    return SSlibKey.from_crypto(load_der_public_key(base64.b64decode(text)))


class Change:
    """The next metadata, while it is being made."""

    def __init__(self, present: Present, *, now: datetime) -> None:
        """`present` is read, also by what comes later, and never changed."""
        self._present = present
        self._now = now
        self._root: Root | None = None
        self._targets = _copy(present.targets)
        self._is_targets_new = False
        self._bins: dict[str, Targets] = {}
        self._files: dict[str, bytes] = {}
        if present.bins is None:
            self._move_into_bins()

    @property
    def floors(self) -> Floors:
        """What was revoked before this change."""
        return self._present.floors()

    def list_release(self, path: str, manifest: bytes) -> None:
        """Add a release; more bins are made where these are full."""
        filled = self._open_bin(path)
        filled.targets[path] = describe(path, manifest)
        self._files[path] = manifest
        self._spread(filled)

    def unlist(self, paths: Iterable[str]) -> list[str]:
        """Take releases out; returns those that were listed."""
        gone = []
        for path in paths:
            if path in self._look_into_bin(path).targets:
                del self._open_bin(path).targets[path]
                gone.append(path)
        return gone

    def keep_only(self, paths: Iterable[str]) -> list[str]:
        """Take all releases out but those; returns what was taken out."""
        kept = set(paths)
        listed = [path for role in self._roles() for path in self._look(role).targets]
        return self.unlist(path for path in listed if path not in kept)

    def set_floors(self, floors: Floors) -> None:
        """Say what is revoked."""
        self._set_own(FLOORS_PATH, encode(floors))

    def set_assignment_keys(self, keys: Sequence[str]) -> None:
        """Say which keys of the fleet may assign."""
        self._set_own(ASSIGNMENT_KEYS_PATH, encode(AssignmentKeys(keys=tuple(keys))))

    def set_authorities(self, authorities: Sequence[x509.Certificate]) -> None:
        """Say whom boards trust to vouch for the fleet's servers."""
        pems = tuple(one.public_bytes(Encoding.PEM).decode() for one in authorities)
        self._set_own(AUTHORITIES_PATH, encode(FleetAuthorities(certificates=pems)))

    def set_role(self, role: str, signatories: Signatories) -> None:
        """Give a role other keys. Those of `targets` sign everything anew, bins too."""
        root = self._open_root()
        _set_keys(root, role, signatories)
        if role == Targets.type:
            self._sign_anew()

    def set_online_keys(self, online: Mapping[str, str]) -> None:
        """Give snapshot and timestamp the fleet's other keys."""
        root = self._open_root()
        for role in _ONLINE:
            _set_keys(root, role, Signatories(1, [online_key(online[role])]))

    def refresh(self, *, before: datetime | None) -> None:
        """Have all signed anew that ends before that time; without one, all."""
        if before is None or self._present.root.signed.expires < before:
            self._open_root()
        if before is None or self._present.targets.signed.expires < before:
            self._is_targets_new = True
        for role in self._roles():
            if role not in self._bins and (before is None or self._look(role).expires < before):
                self._bins[role] = _copy(self._present.bin(role))

    def finish(self) -> NextMetadata:
        """What is to be signed."""
        for role, content in self._bins.items():
            content.version = self._present.version_of(role) + 1
            content.expires = _expiry(self._now, TARGETS_LIFETIME)
            _dated(content, self._now)
        if self._is_targets_new:
            self._targets.version = self._present.targets.signed.version + 1
            self._targets.expires = _expiry(self._now, TARGETS_LIFETIME)
            _dated(self._targets, self._now)
        return NextMetadata(
            root=None if self._root is None else Metadata(self._root),
            targets=Metadata(self._targets) if self._is_targets_new else None,
            bins={role: Metadata(content) for role, content in sorted(self._bins.items())},
            files=self._files,
        )

    def _open_root(self) -> Root:
        if self._root is None:
            self._root = _copy(self._present.root)
            self._root.version += 1
            self._root.expires = _expiry(self._now, ROOT_LIFETIME)
            _dated(self._root, self._now)
        return self._root

    def _release_role(self) -> Role:
        return (self._root or self._present.root.signed).roles[Targets.type]

    def _delegate(self, bit_length: int) -> None:
        """Have the release keys sign so many bins."""
        root, role = self._root or self._present.root.signed, self._release_role()
        keys = {keyid: root.keys[keyid] for keyid in role.keyids}
        bins = SuccinctRoles(list(role.keyids), role.threshold, bit_length, BIN_PREFIX)
        self._targets.delegations = Delegations(keys, succinct_roles=bins)
        self._is_targets_new = True

    def _move_into_bins(self) -> None:
        releases = {path: target for path, target in self._targets.targets.items() if not is_own_path(path)}
        for path in releases:
            del self._targets.targets[path]
        self._delegate(bit_length_for(len(releases)))
        self._fill(releases)

    def _spread(self, filled: Targets) -> None:
        """Make more bins where one was filled. Their names may be those of before, with other content."""
        if len(filled.targets) <= FULL_BIN:
            return
        bins = self._succinct()
        releases = {path: target for role in self._roles() for path, target in self._look(role).targets.items()}
        wanted = bit_length_for(len(releases), present=bins.bit_length)
        if wanted > bins.bit_length:
            self._delegate(wanted)
            self._fill(releases)

    def _fill(self, releases: Mapping[str, TargetFile]) -> None:
        bins = self._succinct()
        self._bins = {role: Targets(expires=self._now) for role in bins.get_roles()}
        for path, target in releases.items():
            self._bins[bins.get_role_for_target(path)].targets[path] = target

    def _sign_anew(self) -> None:
        self._delegate(self._succinct().bit_length)
        for role in self._roles():
            if role not in self._bins:
                self._bins[role] = _copy(self._present.bin(role))

    def _set_own(self, path: str, content: bytes) -> None:
        self._targets.targets[path] = describe(path, content)
        self._files[path] = content
        self._is_targets_new = True

    def _succinct(self) -> SuccinctRoles:
        assert self._targets.delegations is not None and self._targets.delegations.succinct_roles is not None
        return self._targets.delegations.succinct_roles

    def _roles(self) -> list[str]:
        return list(self._succinct().get_roles())

    def _look(self, role: str) -> Targets:
        return self._bins[role] if role in self._bins else self._present.bin(role).signed

    def _look_into_bin(self, path: str) -> Targets:
        return self._look(self._succinct().get_role_for_target(path))

    def _open_bin(self, path: str) -> Targets:
        role = self._succinct().get_role_for_target(path)
        if role not in self._bins:
            self._bins[role] = _copy(self._present.bin(role))
        return self._bins[role]


def _set_keys(root: Root, role: str, signatories: Signatories) -> None:
    for keyid in list(root.roles[role].keyids):
        root.revoke_key(keyid, role)
    for key in signatories.keys:
        root.add_key(key, role)
    root.roles[role].threshold = signatories.threshold


def _copy(metadata: Metadata[_Signed]) -> _Signed:
    return copy.deepcopy(metadata.signed)


def _dated(content: _Signed, now: datetime) -> _Signed:
    content.unrecognized_fields[SIGNED_AT] = int(now.timestamp())
    return content


def _expiry(now: datetime, lifetime: timedelta) -> datetime:
    return (now.astimezone(UTC) + lifetime).replace(microsecond=0)
