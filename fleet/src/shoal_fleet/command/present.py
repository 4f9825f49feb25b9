"""What does the fleet's repository list now, and can a publisher build on it?

The fleet is not trusted here: what it offers must bear the publisher's own signatures, and must not be older than what
was signed in this folder last, or a taken-over fleet could have entries added or revocations forgotten.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from cryptography import x509
from shoal_wire.encoding import decode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, AssignmentKeys
from shoal_wire.metadata import AUTHORITIES_PATH, FLOORS_PATH, MAX_FLOORS_BYTES, Floors, parse_authorities
from tuf.api.exceptions import UnsignedMetadataError
from tuf.api.metadata import Metadata, Root, SuccinctRoles, TargetFile, Targets
from tuf.api.serialization import DeserializationError, SerializationError

from shoal_fleet.command.errors import CommandError, NotFound

_Signed = TypeVar("_Signed", Root, Targets)

LastSigned = Callable[[str], bytes | None]
"""The newest metadata of a role that was signed in this folder; None before the first."""


class Present:
    """Verified metadata: root, targets, and bins as they are asked for."""

    def __init__(
        self,
        *,
        versions: Mapping[str, int],
        read: Callable[[str], bytes],
        read_target: Callable[[str], bytes],
        last_signed: LastSigned,
        first_root: bytes,
    ) -> None:
        """`versions` are the newest of each role, as the fleet says; `read` gets metadata by its file name.

        `first_root` is trusted: the last root that was signed here, or the one that this publisher's keys are in.

        Raises:
            CommandError: what the fleet offers isn't this publisher's, or is older than what was signed here.
        """
        self._versions = versions
        self._read = read
        self._read_target = read_target
        self._last_signed = last_signed
        self._bins: dict[str, Metadata[Targets]] = {}
        self.root = self._follow_roots(first_root)
        raw = read(f"{versions.get(Targets.type, 1)}.targets.json")
        self.targets = parse(raw, Targets, what="the fleet's targets metadata")
        _verify(self.root.signed, self.targets, role=Targets.type, what="the fleet's targets metadata")
        check_not_older(self.targets.signed.version, raw, last_signed(Targets.type), what="targets metadata")

    @property
    def bins(self) -> SuccinctRoles | None:
        """How releases are spread over bins; None while the targets metadata lists them itself."""
        delegations = self.targets.signed.delegations
        return None if delegations is None else delegations.succinct_roles

    def bin(self, role: str) -> Metadata[Targets]:
        """A bin, verified.

        Raises:
            CommandError: it isn't this publisher's, or is older than what was signed here.
        """
        if role not in self._bins:
            what = f"the fleet's metadata of {role}"
            raw = self._read(f"{self._versions.get(role, 0)}.{role}.json")
            metadata = parse(raw, Targets, what=what)
            _verify(self.targets.signed, metadata, role=role, what=what)
            check_not_older(metadata.signed.version, raw, self._last_signed(role), what=f"metadata of {role}")
            self._bins[role] = metadata
        return self._bins[role]

    def version_of(self, role: str) -> int:
        """Newest version of a role that the fleet has; 0 where it has none."""
        return self._versions.get(role, 0)

    def find(self, path: str) -> TargetFile | None:
        """What is signed at a path."""
        where = self.targets if self.bins is None else self.bin(self.bins.get_role_for_target(path))
        return where.signed.targets.get(path)

    def floors(self) -> Floors:
        """What was revoked."""
        raw = self._own(FLOORS_PATH)
        return Floors() if raw is None else decode(raw, Floors, what=FLOORS_PATH, limit_bytes=MAX_FLOORS_BYTES)

    def authorities(self) -> tuple[x509.Certificate, ...]:
        """Whom boards trust to vouch for the fleet's servers; none where nothing was signed of that."""
        raw = self._own(AUTHORITIES_PATH)
        return () if raw is None else parse_authorities(raw)

    def assignment_keys(self) -> AssignmentKeys:
        """Which keys of the fleet may assign.

        Raises:
            CommandError: the targets metadata names none.
        """
        raw = self._own(ASSIGNMENT_KEYS_PATH)
        if raw is None:
            raise CommandError(f"the fleet's targets metadata: expected {ASSIGNMENT_KEYS_PATH} in it, found none")
        return decode(raw, AssignmentKeys, what=ASSIGNMENT_KEYS_PATH)

    def _own(self, path: str) -> bytes | None:
        target = self.targets.signed.targets.get(path)
        if target is None:
            return None
        raw = self._read_target(target.get_prefixed_paths()[0])
        target.verify_length_and_hashes(raw)
        return raw

    def _follow_roots(self, first_root: bytes) -> Metadata[Root]:
        root = parse(first_root, Root, what="the root metadata that is trusted here")
        while True:
            try:
                raw = self._read(f"{root.signed.version + 1}.root.json")
            except NotFound:
                return root
            what = "the fleet's root metadata"
            following = parse(raw, Root, what=what)
            if following.signed.version != root.signed.version + 1:
                raise CommandError(f"{what}: expected version {root.signed.version + 1}")
            _verify(root.signed, following, role=Root.type, what=what)
            _verify(following.signed, following, role=Root.type, what=what)
            root = following


def parse(raw: bytes, kind: type[_Signed], *, what: str) -> Metadata[_Signed]:
    """Metadata of a role, its signatures not yet looked at.

    Raises:
        CommandError: it isn't that.
    """
    try:
        metadata: Metadata[_Signed] = Metadata.from_bytes(raw)
        metadata.signed_bytes  # noqa: B018 (what can be read may still have no canonical form to be verified)
    except (DeserializationError, SerializationError, RecursionError) as error:
        raise CommandError(f"{what}: not readable as TUF metadata: {error}") from None
    if not isinstance(metadata.signed, kind):
        raise CommandError(f"{what}: expected the role {kind.type}, found {metadata.signed.type}")
    return metadata


def check_not_older(version: int, raw: bytes, last_signed: bytes | None, *, what: str) -> None:
    """Make sure that the fleet offers what was signed here last, or something newer.

    A version above the last one known here is accepted: the fleet's answer may have been lost, this folder be a copy of
    an earlier day, or somebody else have signed.

    Raises:
        CommandError: it is older, or another of the same number.
    """
    if last_signed is None:
        return
    last = Metadata.from_bytes(last_signed).signed.version
    if version < last or (version == last and raw != last_signed):
        which = f"version {version}" if version < last else f"another version {version}"
        raise CommandError(
            f"the fleet offers {which} of the {what}, but version {last} was signed here before: the fleet was "
            "restored from an old copy or taken over; nothing was signed"
        )


def _verify(delegator: Root | Targets, metadata: Metadata[_Signed], *, role: str, what: str) -> None:
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (UnsignedMetadataError, ValueError):
        raise CommandError(f"{what}: not signed by this publisher's keys (another publisher's folder?)") from None
