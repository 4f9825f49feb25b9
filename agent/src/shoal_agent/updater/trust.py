"""Which assignment keys, authorities and manifests are signed, and what was revoked, as the fleet's repository has it?

Metadata that can't be trusted at this moment (expired, older than seen, signed by others) says nothing about a release:
the board keeps what it runs, installs nothing new, says why, and tries again.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding
from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.errors import Untrusted, WireError
from shoal_wire.manifest import MAX_MANIFEST_BYTES, target_path
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, Assignment, AssignmentKeys, Desired, TrustReport
from shoal_wire.metadata import (
    AUTHORITIES_PATH,
    FLOORS_PATH,
    MAX_AUTHORITIES_BYTES,
    MAX_FLOORS_BYTES,
    Floors,
    parse_authorities,
)
from tuf.api.exceptions import LengthOrHashMismatchError, RepositoryError
from tuf.api.metadata import TargetFile

from shoal_agent.credentials import read_lifetime
from shoal_agent.errors import StateDamaged
from shoal_agent.slots import stored
from shoal_agent.state import AUTHORITIES, AUTHORITY
from shoal_agent.updater.errors import BrokenInstallation, Refused, Untrustworthy
from shoal_agent.updater.planning import merge_floors
from shoal_agent.updater.records import DESIRED, REVOKED, TRUST, Records
from shoal_agent.updater.repository import Places, Repository, Source
from shoal_agent.updater.time_floor import Reading, TimeFloor, follow_fleet, follow_keys, follow_metadata, say_time

_ROOT = Path("tuf", "root.json")
_CACHE = Path("tuf", "cache")
_MAX_KEYS_BYTES = 64 << 10


class Trust:
    """What is signed, and by whom."""

    def __init__(self, records: Records, *, source: Source, url: str, now: Callable[[], float]) -> None:
        """Does nothing yet. `now` is this board's clock, in Unix seconds."""
        self._records = records
        self._source = source
        self._url = url
        self._now = now
        self._repository: Repository | None = None

    def read_time(self) -> Reading:
        """What time it is taken to be, by the clock and by what was signed and seen so far."""
        return Reading(self._now(), self._records.time_floor().at)

    def refresh(self) -> TrustReport:
        """Fetch the newest metadata, assignment keys, floors and authorities, and keep what they say.

        Writes time.json, trust.json, revoked.json, floors.json, authorities.json and authority.pem.

        Raises:
            Untrustworthy: the metadata can't be trusted now.
            TryLater: the fleet can't be reached.
            BrokenInstallation: the root metadata from enrolment is missing or damaged.
        """
        floor = self._hear_the_fleet(self._records.time_floor())
        repository = self._open()
        try:
            reading = self._verify(repository, floor)
        except Untrustworthy:
            followed = follow_keys(floor, repository.keys())
            if followed == floor:
                raise
            repository = self._open()
            reading = self._verify(repository, followed)
        self._repository = repository
        self._renew_keys(repository)
        self._renew_floors(repository)
        self._renew_authorities(repository)
        root, targets = repository.versions()
        return TrustReport(
            at=reading.at,
            is_clock_behind=reading.is_clock_behind,
            root=root,
            targets=targets,
            expires_at=repository.expires_at(),
        )

    def desired(self) -> Desired | None:
        """desired.dsse as far as the assignment keys known here have signed it; None where there is none.

        Raises:
            WireError: signed by none of them, changed, or no desired document of this device.
            BrokenInstallation: device.json or trust.json is missing or damaged.
        """
        files, state = self._records.files, self._records.state
        try:
            raw = files.read(state / DESIRED)
        except FileNotFoundError:
            return None
        payload = envelope.verify(raw, envelope.DESIRED, self._keys(), what="desired document")
        desired = decode(payload, Desired, what="desired document")
        device = self._records.device().device
        if desired.device != device:
            raise Untrusted(f"desired document: expected one for {device}, found one for {desired.device}")
        return desired

    def fetch_manifest(self, assignment: Assignment) -> bytes:
        """The manifest's text, if it is signed with the digest of the assignment and not revoked. After `refresh`.

        It comes from the store where it lies there unharmed.

        Raises:
            Refused: not listed, with another digest, or revoked.
            TryLater: the fleet can't be reached, or sends other bytes than it signed.
        """
        assert self._repository is not None, "refresh comes first"
        path = target_path(name=assignment.release, version=assignment.version)
        target = self._repository.find(path)
        if target is None:
            raise Refused(f"{path}: not signed by the release key (the targets metadata doesn't list it)")
        signed = target.hashes.get("sha256")
        if signed != assignment.manifest_sha256:
            raise Refused(f"{path}: assigned with digest {assignment.manifest_sha256}, signed with {signed}")
        if signed in self._records.revoked().revoked:
            raise Refused(f"{path}: was revoked by the release key")
        kept = stored(self._records.state, assignment.manifest_sha256)
        return self._read_target(target, kept) or self._repository.fetch(target, limit_bytes=MAX_MANIFEST_BYTES)

    def _verify(self, repository: Repository, floor: TimeFloor) -> Reading:
        """Refresh, with expiry judged at the time that is known; returns what time that is. Keeps the floor.

        Raises:
            Untrustworthy: with the time that it was judged by.
        """
        reading = Reading(self._now(), floor.at)
        try:
            repository.refresh(at=reading.at)
            floor = follow_metadata(floor, repository.vouched())
            reading = Reading(self._now(), floor.at)
            repository.check_expiry(at=reading.at)
        except Untrustworthy as error:
            why = f"{error}, {reading}{_describe_offer(repository, reading)}"
            raise Untrustworthy(f"{why}: this board keeps what it runs and installs nothing new") from error
        finally:
            self._records.write_time_floor(floor)
        return reading

    def _open(self) -> Repository:
        root = self._records.state / _ROOT
        try:
            return Repository(
                root=self._records.files.read(root),
                cache=self._records.state / _CACHE,
                files=self._records.files,
                source=self._source,
                places=Places.of_fleet(self._url),
            )
        except FileNotFoundError:
            raise BrokenInstallation(f"{root} is missing: was this board enrolled?") from None
        except RepositoryError as error:
            raise BrokenInstallation(f"{root}: {error}") from None

    def _hear_the_fleet(self, floor: TimeFloor) -> TimeFloor:
        """The floor after the fleet's certificate and desired document: a frozen repository doesn't change those."""
        files, state = self._records.files, self._records.state
        with contextlib.suppress(StateDamaged):
            floor = follow_fleet(floor, read_lifetime(files, state).not_before.timestamp())
        try:
            desired = self.desired()
        except WireError:
            return floor
        return floor if desired is None else follow_fleet(floor, desired.issued_at)

    def _renew_keys(self, repository: Repository) -> None:
        target = repository.find(ASSIGNMENT_KEYS_PATH)
        if target is None:
            raise Untrustworthy(f"TUF metadata: names no {ASSIGNMENT_KEYS_PATH}, so nothing may be assigned")
        path = self._records.state / TRUST
        if self._read_target(target, path) is None:
            raw = self._fetch_own(repository, target, limit_bytes=_MAX_KEYS_BYTES, check=_parse_keys)
            self._records.files.write(path, raw)

    def _renew_floors(self, repository: Repository) -> None:
        """Floors only rise: what a file of other floors doesn't name stays as it was."""
        target = repository.find(FLOORS_PATH)
        if target is None:
            return
        path = self._records.state / REVOKED
        raw = self._read_target(target, path)
        if raw is None:
            raw = self._fetch_own(repository, target, limit_bytes=MAX_FLOORS_BYTES, check=_parse_floors)
            self._records.files.write(path, raw)
        known = self._records.floors()
        raised = merge_floors(known, _parse_floors(raw).floors)
        if raised != known:
            self._records.write_floors(raised)

    def _renew_authorities(self, repository: Repository) -> None:
        """Trust whom the publisher names, and them alone; not before a server of the fleet can be reached by them.

        From the first list on, no answer of a server changes whom the board trusts (`shoal_agent.succession`).
        """
        target = repository.find(AUTHORITIES_PATH)
        if target is None:
            return
        files, state = self._records.files, self._records.state
        raw = self._read_target(target, state / AUTHORITIES)
        if raw is None:
            raw = self._fetch_own(repository, target, limit_bytes=MAX_AUTHORITIES_BYTES, check=parse_authorities)
            files.write(state / AUTHORITIES, raw)
        named = parse_authorities(raw)
        pem = b"".join(one.public_bytes(Encoding.PEM) for one in named)
        if files.read(state / AUTHORITY) != pem and self._source.is_vouched_for_by(named):
            files.write(state / AUTHORITY, pem)

    def _fetch_own(
        self, repository: Repository, target: TargetFile, *, limit_bytes: int, check: Callable[[bytes], object]
    ) -> bytes:
        """A target that the agent itself reads."""
        try:
            raw = repository.fetch(target, limit_bytes=limit_bytes)
            check(raw)
        except (Refused, WireError) as error:
            raise Untrustworthy(f"{target.path} as it is signed now can't be used: {error}") from error
        return raw

    def _read_target(self, target: TargetFile, path: Path) -> bytes | None:
        """What lies at `path`, if it is the target as it is signed now."""
        try:
            raw = self._records.files.read(path)
            target.verify_length_and_hashes(raw)
        except (FileNotFoundError, LengthOrHashMismatchError):
            return None
        return raw

    def _keys(self) -> tuple[envelope.PublicKey, ...]:
        try:
            return _parse_keys(self._records.files.read(self._records.state / TRUST))
        except FileNotFoundError:
            return ()


def _describe_offer(repository: Repository, reading: Reading) -> str:
    """Whether the fleet's own time contradicts the clock: only a person can tell which of them is wrong."""
    offered_at = repository.offered_at()
    if offered_at is None or reading.is_clock_behind:
        return ""
    return f"; the fleet signed its newest at {say_time(offered_at)}"


def _parse_keys(raw: bytes) -> tuple[envelope.PublicKey, ...]:
    keys = decode(raw, AssignmentKeys, what=TRUST, limit_bytes=_MAX_KEYS_BYTES)
    return tuple(envelope.parse_public_key(key, what=TRUST) for key in keys.keys)


def _parse_floors(raw: bytes) -> Floors:
    return decode(raw, Floors, what=REVOKED, limit_bytes=MAX_FLOORS_BYTES)
