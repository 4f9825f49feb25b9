"""Which assignment keys and which manifests are signed, as the fleet's TUF repository has them now?

python-tuf's client does the work from the root metadata that enrolment brought, which is never replaced: python-tuf
keeps its own files in a folder beside it and writes them without syncing, so they are synced here before anything is
built on them. Metadata that can't be trusted at this moment (expired, older than seen, signed by others) says nothing
about a release: the board keeps what it runs, installs nothing new, says why, and tries again.
"""

from collections.abc import Iterator
from pathlib import Path

from shoal_wire import envelope, paths
from shoal_wire.encoding import decode
from shoal_wire.errors import Untrusted, WireError
from shoal_wire.manifest import MAX_MANIFEST_BYTES, target_path
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, Assignment, AssignmentKeys, Desired
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
)
from tuf.api.metadata import TargetFile
from tuf.ngclient import FetcherInterface, Updater

from shoal_agent.slots import stored
from shoal_agent.updater.errors import BrokenInstallation, Refused, TryLater
from shoal_agent.updater.http_client import FleetHttp
from shoal_agent.updater.records import DESIRED, TRUST, Records

_ROOT = Path("tuf", "root.json")
_CACHE = Path("tuf", "cache")
_MAX_KEYS_BYTES = 64 << 10


class Trust:
    """What is signed, and by whom."""

    def __init__(self, records: Records, *, http: FleetHttp) -> None:
        """Does nothing yet."""
        self._records = records
        self._http = http
        self._client: Updater | None = None

    def refresh(self) -> None:
        """Fetch the newest metadata and assignment keys, and write trust.json.

        Raises:
            TryLater: the fleet can't be reached, or its metadata can't be trusted now.
            BrokenInstallation: the root metadata from enrolment is missing or damaged.
        """
        files, cache = self._records.files, self._records.state / _CACHE
        for name in files.names(cache):
            if name.startswith("tmp"):  # python-tuf was killed while it wrote
                files.remove(cache / name)
        client = self._make_client(cache)
        try:
            client.refresh()
            keys = client.get_targetinfo(ASSIGNMENT_KEYS_PATH)
        except ExpiredMetadataError as error:
            raise TryLater(
                f"TUF metadata has expired ({error}): this board keeps what it runs and installs nothing new"
            ) from error
        except RepositoryError as error:
            raise TryLater(
                f"TUF metadata can't be trusted ({error}): this board keeps what it runs and installs nothing new"
            ) from error
        except DownloadError as error:
            raise TryLater(f"TUF metadata: {error}") from error
        files.sync(cache / "root_history")
        files.sync(cache)
        self._client = client
        if keys is None:
            raise TryLater(f"TUF metadata: names no {ASSIGNMENT_KEYS_PATH}, so nothing may be assigned")
        self._renew_keys(keys)

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
        """The manifest's text, if the targets metadata lists it with the digest of the assignment. After `refresh`.

        It comes from the store where it lies there unharmed.

        Raises:
            Refused: not listed, or with another digest.
            TryLater: the fleet can't be reached, or sends other bytes than it signed.
        """
        assert self._client is not None, "refresh comes first"
        path = target_path(name=assignment.release, version=assignment.version)
        target = self._client.get_targetinfo(path)
        if target is None:
            raise Refused(f"{path}: not signed by the release key (the targets metadata doesn't list it)")
        signed = target.hashes.get("sha256")
        if signed != assignment.manifest_sha256:
            raise Refused(f"{path}: assigned with digest {assignment.manifest_sha256}, signed with {signed}")
        kept = stored(self._records.state, assignment.manifest_sha256)
        return self._read_target(target, kept) or self._fetch_target(target, limit_bytes=MAX_MANIFEST_BYTES)

    def _make_client(self, cache: Path) -> Updater:
        root = self._records.state / _ROOT
        try:
            return Updater(
                metadata_dir=str(cache),
                metadata_base_url=self._http.url + paths.TUF_METADATA,
                fetcher=_Fetcher(self._http),
                bootstrap=self._records.files.read(root),
            )
        except FileNotFoundError:
            raise BrokenInstallation(f"{root} is missing: was this board enrolled?") from None
        except RepositoryError as error:
            raise BrokenInstallation(f"{root}: {error}") from None

    def _renew_keys(self, target: TargetFile) -> None:
        path = self._records.state / TRUST
        if self._read_target(target, path) is not None:
            return
        try:
            raw = self._fetch_target(target, limit_bytes=_MAX_KEYS_BYTES)
            _parse_keys(raw)
        except (Refused, WireError) as error:
            raise TryLater(f"assignment keys as they are signed now can't be used: {error}") from error
        self._records.files.write(path, raw)

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

    def _fetch_target(self, target: TargetFile, *, limit_bytes: int) -> bytes:
        if target.length > limit_bytes:
            raise Refused(f"{target.path}: {target.length} bytes, expected at most {limit_bytes}")
        url = self._http.url + paths.TUF_TARGETS + target.get_prefixed_paths()[0]
        try:
            raw = _Fetcher(self._http).download_bytes(url, target.length)
            target.verify_length_and_hashes(raw)
        except (DownloadError, LengthOrHashMismatchError) as error:
            raise TryLater(f"{target.path}: {error}") from error
        return raw


class _Fetcher(FetcherInterface):
    """python-tuf's downloads over the device's own connection."""

    def __init__(self, http: FleetHttp) -> None:
        self._http = http

    def _fetch(self, url: str) -> Iterator[bytes]:
        with self._http.get(url) as answer:
            if answer.status != 200:
                raise DownloadHTTPError(f"{url}: status {answer.status}", answer.status)
            yield from answer.pieces


def _parse_keys(raw: bytes) -> tuple[envelope.PublicKey, ...]:
    keys = decode(raw, AssignmentKeys, what=TRUST, limit_bytes=_MAX_KEYS_BYTES)
    return tuple(envelope.parse_public_key(key, what=TRUST) for key in keys.keys)
