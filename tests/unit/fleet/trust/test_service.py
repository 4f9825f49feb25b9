"""Does the fleet take only its publisher's metadata, and do python-tuf's own clients trust what it serves?"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import Conflict, FleetError, NotFound, Refused, TooLarge
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.trust import service
from shoal_fleet.trust.service import MetadataUpdate
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.exceptions import DownloadHTTPError, ExpiredMetadataError
from tuf.api.metadata import Metadata, Root, Snapshot, Timestamp
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface

from tests.publisher import Publisher, make_release, online_key, signed
from tests.unit.fleet.boards import ISSUER, close_database, make_database, make_keys

NOW = datetime.now(UTC).timestamp()
DAY_S = 86400.0


class ServiceFetcher(FetcherInterface):
    """Brings what the service serves to python-tuf's client, without a network."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def _fetch(self, url: str) -> Iterator[bytes]:
        folder, _, rest = url.removeprefix("fleet://").partition("/")
        read: dict[str, Callable[..., bytes]] = {"metadata": service.read_metadata, "targets": service.read_target}
        try:
            with self._sessions() as session:
                yield read[folder](session, rest)
        except NotFound as error:
            raise DownloadHTTPError(str(error), 404) from None


class Site:
    """The fleet's side of trust, with one publisher."""

    def __init__(self, folder: Path) -> None:
        self.sessions = make_database()
        self.folder = folder
        self.keys = make_keys()
        public = self.keys.public
        self.publisher = Publisher(
            {"snapshot": public.snapshot, "timestamp": public.timestamp, "assignment": public.assignment}
        )

    def begin(self, *, root: bytes | None = None, targets: bytes | None = None, now: float = NOW) -> None:
        with self.sessions() as session:
            service.begin(
                session,
                root=root or self.publisher.signed_root(),
                targets=targets or self.publisher.signed_targets(),
                target_files={ASSIGNMENT_KEYS_PATH: self.publisher.assignment_keys},
                keys=self.keys,
                issuer=ISSUER,
                now=now,
            )

    def add(self, targets: bytes, files: dict[str, bytes]) -> None:
        with self.sessions() as session, writing(session):
            service.accept(
                session, MetadataUpdate(targets=targets, files=files), keys=self.keys, issuer=ISSUER, now=NOW
            )

    def renew(self, *, now: float, keys: OnlineKeys | None = None) -> bool:
        with self.sessions() as session:
            return service.renew(session, keys=keys or self.keys, now=now)

    def read(self, name: str) -> bytes:
        with self.sessions() as session:
            return service.read_metadata(session, name)

    def client(self) -> Updater:
        cache = self.folder / "cache"
        cache.mkdir(exist_ok=True)
        return Updater(
            metadata_dir=str(cache),
            metadata_base_url="fleet://metadata/",
            target_dir=str(cache),
            target_base_url="fleet://targets/",
            fetcher=ServiceFetcher(self.sessions),
            bootstrap=self.publisher.signed_root(),
        )

    def download(self, path: str) -> bytes:
        client = self.client()
        client.refresh()
        info = client.get_targetinfo(path)
        assert info is not None
        return Path(client.download_target(info)).read_bytes()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    close_database(site.sessions)


def test_client_of_python_tuf_gets_the_assignment_keys_and_a_manifest(site: Site) -> None:
    site.begin()
    assert site.download(ASSIGNMENT_KEYS_PATH) == site.publisher.assignment_keys
    release = make_release("m", 1)
    site.add(site.publisher.next_targets(release), {release.path: release.manifest})
    assert site.download("m/1/manifest.json") == release.manifest


def test_targets_come_one_version_after_the_other(site: Site) -> None:
    site.begin()
    release = make_release("m", 1)
    targets = site.publisher.next_targets(release)
    site.publisher.targets.version += 1
    with pytest.raises(Conflict, match="expected version 2, found 3"):
        site.add(site.publisher.signed_targets(), {release.path: release.manifest})
    site.add(targets, {release.path: release.manifest})
    with pytest.raises(Conflict, match="expected version 3, found 2"):
        site.add(targets, {release.path: release.manifest})


def test_refuses_targets_signed_by_another_key(site: Site) -> None:
    site.begin()
    release = make_release("m", 1)
    site.publisher.next_targets(release)
    forged = site.publisher.signed_targets(signer=CryptoSigner.generate_ed25519())
    with pytest.raises(Untrusted, match="expected signatures by 1 of the keys"):
        site.add(forged, {release.path: release.manifest})


def test_refuses_targets_changed_after_signing(site: Site) -> None:
    site.begin()
    release = make_release("m", 1)
    document = json.loads(site.publisher.next_targets(release))
    document["signed"]["targets"][release.path]["length"] += 1
    with pytest.raises(Untrusted):
        site.add(json.dumps(document).encode(), {release.path: release.manifest})


def test_refuses_a_manifest_with_one_bit_changed(site: Site) -> None:
    site.begin()
    release = make_release("m", 1)
    changed = bytes([release.manifest[0] ^ 1]) + release.manifest[1:]
    with pytest.raises(Refused, match=r"m/1/manifest\.json: signed as .* found"):
        site.add(site.publisher.next_targets(release), {release.path: changed})


def test_refuses_a_listed_target_whose_bytes_it_does_not_have(site: Site) -> None:
    site.begin()
    site.publisher.list_target("other/1/manifest.json", b"somewhere else")
    release = make_release("m", 1)
    with pytest.raises(Refused, match=r"other/1/manifest\.json .* aren't here"):
        site.add(site.publisher.next_targets(release), {release.path: release.manifest})


@pytest.mark.parametrize("content", [None, b'{"protocol":1,"keys":["AAAA"]}'])
def test_refuses_targets_by_which_no_device_would_trust_this_fleet(site: Site, content: bytes | None) -> None:
    site.begin()
    files = {}
    if content is None:
        del site.publisher.targets.targets[ASSIGNMENT_KEYS_PATH]
    else:
        site.publisher.list_target(ASSIGNMENT_KEYS_PATH, content)
        files = {ASSIGNMENT_KEYS_PATH: content}
    site.publisher.targets.version += 1
    with pytest.raises(Refused, match=ASSIGNMENT_KEYS_PATH):
        site.add(site.publisher.signed_targets(), files)


def test_refused_targets_leave_no_trace(site: Site) -> None:
    site.begin()
    before = site.read("timestamp.json")
    release = make_release("m", 1)
    targets = site.publisher.next_targets(release)
    with pytest.raises(Refused):
        site.add(targets, {})
    assert site.read("timestamp.json") == before
    site.add(targets, {release.path: release.manifest})


def test_ceremony_happens_once(site: Site) -> None:
    site.begin()
    with pytest.raises(Conflict, match="has a publisher already"):
        site.begin()


def test_ceremony_begins_with_version_one_of_targets(site: Site) -> None:
    site.publisher.targets.version = 2
    with pytest.raises(Conflict, match="expected version 1, found 2"):
        site.begin()


def test_refuses_an_expired_root_and_expired_targets(site: Site) -> None:
    with pytest.raises(Refused, match="root metadata: expired"):
        site.begin(now=NOW + 366 * DAY_S)
    with pytest.raises(Refused, match="targets metadata: expired"):
        site.begin(now=NOW + 91 * DAY_S)


def test_refuses_a_root_that_does_not_sign_itself(site: Site) -> None:
    with pytest.raises(Untrusted, match="root metadata"):
        site.begin(root=signed(site.publisher.root, CryptoSigner.generate_ed25519()))


@pytest.mark.parametrize(
    ("role", "key", "message"),
    [
        ("targets", "snapshot", "role targets has a key of the fleet"),
        ("targets", "assignment", "role targets has a key of the fleet"),
        ("root", "timestamp", "role root has a key of the fleet"),
        ("snapshot", "timestamp", "expected the fleet's own snapshot key alone"),
    ],
)
def test_refuses_a_root_with_a_key_in_the_wrong_role(site: Site, role: str, key: str, message: str) -> None:
    site.publisher.root.add_key(online_key(site.publisher.fleet_keys[key]), role)
    with pytest.raises(Refused, match=message):
        site.begin()


def test_refuses_a_root_for_another_fleet(site: Site) -> None:
    public = make_keys().public
    other = Publisher({"snapshot": public.snapshot, "timestamp": public.timestamp, "assignment": public.assignment})
    with pytest.raises(Refused, match="the fleet's own snapshot key"):
        site.begin(root=other.signed_root())


@pytest.mark.parametrize("raw", [b"", b"{}", b"[" * 50_000, b'{"signed":{"_type":"root"},"signatures":[]}'])
def test_refuses_nonsense(site: Site, raw: bytes) -> None:
    with pytest.raises(Malformed, match="root metadata"):
        site.begin(root=raw or b" ")
    with pytest.raises(Malformed, match="targets metadata"):
        site.begin(targets=raw or b" ")


def test_refuses_targets_in_the_place_of_root(site: Site) -> None:
    with pytest.raises(Malformed, match="found metadata of the role targets"):
        site.begin(root=site.publisher.signed_targets())


def test_refuses_what_is_too_long(site: Site) -> None:
    with pytest.raises(TooLarge):
        site.begin(root=b" " * (192 << 10) + b" ")


def test_nothing_is_renewed_before_it_is_due(site: Site) -> None:
    assert not site.renew(now=NOW)
    site.begin()
    assert not site.renew(now=NOW + 15 * 3600)


def test_timestamp_alone_is_renewed_when_a_third_of_its_day_is_left(site: Site) -> None:
    site.begin()
    assert site.renew(now=NOW + 16.1 * 3600)
    timestamp = Metadata[Timestamp].from_bytes(site.read("timestamp.json")).signed
    assert (timestamp.version, timestamp.snapshot_meta.version) == (2, 1)
    assert timestamp.expires > datetime.fromtimestamp(NOW, UTC) + timedelta(hours=40)


def test_snapshot_is_renewed_with_its_timestamp(site: Site) -> None:
    site.begin()
    assert site.renew(now=NOW + 4.8 * DAY_S)
    snapshot = Metadata[Snapshot].from_bytes(site.read("2.snapshot.json")).signed
    timestamp = Metadata[Timestamp].from_bytes(site.read("timestamp.json")).signed
    assert snapshot.meta["targets.json"].version == 1
    assert (timestamp.version, timestamp.snapshot_meta.version) == (2, 2)


def test_client_refuses_metadata_that_was_not_renewed(site: Site) -> None:
    site.begin(now=NOW - 1.5 * DAY_S)
    with pytest.raises(ExpiredMetadataError):
        site.client().refresh()
    site.renew(now=NOW)
    site.client().refresh()


def test_all_versions_stay_readable(site: Site) -> None:
    site.begin()
    release = make_release("m", 1)
    site.add(site.publisher.next_targets(release), {release.path: release.manifest})
    for name in ("1.root.json", "1.targets.json", "2.targets.json", "1.snapshot.json", "2.snapshot.json"):
        site.read(name)
    assert Metadata[Root].from_bytes(site.read("1.root.json")).signed.version == 1


@pytest.mark.parametrize(
    "name",
    [
        "2.root.json",
        "root.json",
        "1.timestamp.json",
        "snapshot.json",
        "../timestamp.json",
        "timestamp.json/",
        "x" * 5000,
    ],
)
def test_other_names_are_not_found(site: Site, name: str) -> None:
    site.begin()
    with pytest.raises(NotFound):
        site.read(name)


def test_keys_of_another_backup_are_noticed(site: Site) -> None:
    with site.sessions() as session:
        service.take_up_keys(session, keys=site.keys)
    site.begin()
    with site.sessions() as session:
        service.take_up_keys(session, keys=site.keys)
        with pytest.raises(FleetError, match="the fleet's own snapshot key"):
            service.take_up_keys(session, keys=make_keys())


def test_what_is_trusted_is_what_was_signed(site: Site) -> None:
    with site.sessions() as session:
        assert service.find_trusted(session) == (None, None)
    site.begin()
    with site.sessions() as session:
        found = service.find_trusted(session)
    assert found == (site.publisher.signed_root(), site.publisher.signed_targets())
