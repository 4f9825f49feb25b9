"""What do the root, timestamp, snapshot and targets metadata of the fleet's TUF repository say now?

python-tuf's client does the work from the root metadata that enrolment brought, which is never replaced; newer roots it
reaches by the chain of root metadata, each signed by the one before. It keeps its own files in a folder beside and
writes them without syncing, so they are synced here before anything is built on them. It is told what time it is.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509
from shoal_wire import paths
from shoal_wire.metadata import read_signed_at
from tuf.api.exceptions import (
    DownloadError,
    DownloadHTTPError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
)
from tuf.api.metadata import Root, Signed, TargetFile, Timestamp
from tuf.ngclient import FetcherInterface, Updater

from shoal_agent.files import Files
from shoal_agent.updater.errors import Refused, TryLater, Untrustworthy
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.time_floor import Keys, Vouched

_ODD = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What python-tuf raises for JSON of other types than it expects: whoever sends that must not end the updater."""

_TOP = ("root", "timestamp", "snapshot", "targets")


class Source(Protocol):
    """Where metadata and targets come from."""

    def get(self, url: str) -> AbstractContextManager[Answer]:
        """Ask for `url`. Raises TryLater, also while its pieces come."""

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        """Whether it could be reached now if these were trusted, and no others."""


class Places(NamedTuple):
    """Where it is, each with a slash at its end."""

    metadata: str
    targets: str

    @classmethod
    def of_fleet(cls, url: str) -> "Places":
        """Those of a fleet's listener for devices."""
        return cls(url + paths.TUF_METADATA, url + paths.TUF_TARGETS)


class Repository:
    """One look at the repository: everything found afterwards is of one consistent state of it."""

    def __init__(self, *, root: bytes, cache: Path, files: Files, source: Source, places: Places) -> None:
        """`root`: the first root metadata. `cache`: folder of python-tuf.

        Raises:
            RepositoryError: `root` is no root metadata.
        """
        self._cache = cache
        self._files = files
        self._places = places
        self._fetcher = _Fetcher(source)
        for name in files.names(cache):
            if name.startswith("tmp"):  # python-tuf was killed while it wrote
                files.remove(cache / name)
        self._client = Updater(
            metadata_dir=str(cache),
            metadata_base_url=places.metadata,
            fetcher=self._fetcher,
            bootstrap=root,
        )

    def refresh(self, *, at: float) -> None:
        """Fetch and verify the newest metadata, with expiry judged at that time (Unix seconds). Once only.

        Raises:
            Untrustworthy: it is expired, older than was seen, or signed by others.
            TryLater: the fleet can't be reached.
        """
        self._judge_at(at)
        with _explained():
            self._client.refresh()
        self._sync()

    def check_expiry(self, *, at: float) -> None:
        """Judge the expiry of what `refresh` brought, and of what comes after, at another time.

        Raises:
            Untrustworthy: something is expired by then.
        """
        self._judge_at(at)
        for role in _TOP:
            if self._signed(role).is_expired(_time(at)):
                raise Untrustworthy(f"TUF metadata has expired ({role}.json is expired)")

    def find(self, path: str) -> TargetFile | None:
        """What is signed at that path now; None where nothing is. Fetches the bin that lists it, where there are bins.

        Raises as `refresh`.
        """
        with _explained():
            target = self._client.get_targetinfo(path)
        self._sync()
        return target

    def fetch(self, target: TargetFile, *, limit_bytes: int) -> bytes:
        """The bytes of a target.

        Raises:
            Refused: it is signed as longer than that.
            TryLater: the fleet can't be reached, or sends other bytes than were signed.
        """
        if target.length > limit_bytes:
            raise Refused(f"{target.path}: {target.length} bytes, expected at most {limit_bytes}")
        root = self._signed("root")
        assert isinstance(root, Root)
        url = self._places.targets + (target.get_prefixed_paths()[0] if root.consistent_snapshot else target.path)
        try:
            raw = self._fetcher.download_bytes(url, target.length)
            target.verify_length_and_hashes(raw)
        except (DownloadError, LengthOrHashMismatchError) as error:
            raise TryLater(f"{target.path}: {error}") from error
        return raw

    def vouched(self) -> Vouched:
        """Which times the metadata of `refresh` vouches for."""
        return Vouched(
            root_at=_signed_at(self._signed("root")),
            release_at=_signed_at(self._signed("targets")),
            online_at=max(_signed_at(self._signed(role)) for role in ("snapshot", "timestamp")),
            keys=self.keys(),
            root_ends_at=self._signed("root").expires.timestamp(),
            limit_at=min(self._signed(role).expires.timestamp() for role in ("root", "targets")),
        )

    def keys(self) -> Keys:
        """Which keys the newest root names, also where `refresh` failed after that."""
        root = self._signed("root")
        assert isinstance(root, Root)
        named = {role: ",".join(sorted(root.roles[role].keyids)) for role in ("root", "targets", "timestamp")}
        digests = {role: hashlib.sha256(keyids.encode()).hexdigest() for role, keyids in named.items()}
        return Keys(root=digests["root"], release=digests["targets"], online=named["timestamp"][:200])

    def versions(self) -> tuple[int, int]:
        """Of root and targets, after `refresh`."""
        return self._signed("root").version, self._signed("targets").version

    def expires_at(self) -> float:
        """When the first of the four ends."""
        return min(self._signed(role).expires.timestamp() for role in _TOP)

    def offered_at(self) -> float | None:
        """When the fleet says that it signed its timestamp, as far as that was verified before `refresh` failed."""
        timestamp = self._client._trusted_set.get(Timestamp.type)
        return None if timestamp is None else read_signed_at(timestamp.unrecognized_fields)

    def _judge_at(self, at: float) -> None:
        # python-tuf reads the system's clock when it is made, and has no public way to tell it another time.
        self._client._trusted_set.reference_time = _time(at)

    def _signed(self, role: str) -> Signed:
        return self._client._trusted_set[role]

    def _sync(self) -> None:
        self._files.sync(self._cache / "root_history")
        self._files.sync(self._cache)


class _Fetcher(FetcherInterface):
    """python-tuf's downloads over the device's own connection."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def _fetch(self, url: str) -> Iterator[bytes]:
        with self._source.get(url) as answer:
            if answer.status != 200:
                raise DownloadHTTPError(f"{url}: status {answer.status}", answer.status)
            yield from answer.pieces


@contextmanager
def _explained() -> Iterator[None]:
    """python-tuf's errors as the updater's."""
    try:
        yield
    except ExpiredMetadataError as error:
        raise Untrustworthy(f"TUF metadata has expired ({error})") from error
    except RepositoryError as error:
        raise Untrustworthy(f"TUF metadata can't be trusted ({error})") from error
    except DownloadError as error:
        raise TryLater(f"TUF metadata: {error}") from error
    except _ODD as error:
        raise Untrustworthy(f"TUF metadata can't be read ({type(error).__name__}: {error})") from error


def _signed_at(signed: Signed) -> float:
    return read_signed_at(signed.unrecognized_fields) or 0.0


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
