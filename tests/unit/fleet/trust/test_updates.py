"""Does the fleet take the next version of what its publisher signed, by the right keys, and nothing else?"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from securesystemslib.signer import CryptoSigner
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import Conflict, FleetError, Refused
from shoal_fleet.kek.service import list_secret_keys, move_secret_key
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.signing_keys import NAMES, SigningKeys, make_next
from shoal_fleet.trust import expiry, service
from shoal_fleet.trust.service import MetadataUpdate
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.metadata import Delegations, Metadata, Root, Snapshot, SuccinctRoles, TargetFile, Targets

from tests.publisher import Publisher, make_release, online_key
from tests.unit.fleet.boards import ISSUER, close_database, make_database, make_keys
from tests.unit.fleet.command.material import make_certificate

NOW = datetime.now(UTC).timestamp()
DAY_S = 86400.0
FLOORS = "keys/floors.json"
AUTHORITIES = "keys/authorities.json"


class Repository:
    """A fleet with a publisher who lists releases in two bins, written with python-tuf alone."""

    def __init__(self, keys: OnlineKeys) -> None:
        self.sessions: Sessions = make_database()
        self.keys = keys
        self.issuer = ISSUER
        public = self.keys.public
        self.publisher = Publisher(
            {"snapshot": public.snapshot, "timestamp": public.timestamp, "assignment": public.assignment}
        )
        self.release_key = self.publisher.targets_key
        self.bin_versions = {f"bins-{number}": 0 for number in range(2)}
        self.bins = {f"bins-{number}": Targets(expires=self.publisher.expiry(90)) for number in range(2)}
        with self.sessions() as session:
            service.begin(
                session,
                root=self.publisher.signed_root(),
                targets=self.publisher.signed_targets(),
                target_files={ASSIGNMENT_KEYS_PATH: self.publisher.assignment_keys},
                keys=self.keys,
                issuer=ISSUER,
                now=NOW,
            )

    def delegate(self, *, bit_length: int = 1, prefix: str = "bins", key: CryptoSigner | None = None) -> None:
        public = (key or self.release_key).public_key
        bins = SuccinctRoles([public.keyid], 1, bit_length, prefix)
        self.publisher.targets.delegations = Delegations({public.keyid: public}, succinct_roles=bins)

    def next_targets(self, *, key: CryptoSigner | None = None) -> bytes:
        self.publisher.targets.version += 1
        return self.publisher.signed_targets(signer=key or self.release_key)

    def next_bin(self, role: str, *, key: CryptoSigner | None = None, version: int | None = None) -> bytes:
        content = self.bins[role]
        content.version = self.bin_versions[role] = version or self.bin_versions[role] + 1
        return sign(content, key or self.release_key)

    def next_bins(self) -> dict[str, bytes]:
        return {role: self.next_bin(role) for role in self.bins}

    def next_root(self, *signers: CryptoSigner) -> bytes:
        self.publisher.root.version += 1
        return sign(self.publisher.root, *signers)

    def list_in_bin(self, name: str, version: int) -> tuple[str, dict[str, bytes]]:
        """The bin that lists it, and its file."""
        release = make_release(name, version)
        role = SuccinctRoles(["x"], 1, 1, "bins").get_role_for_target(release.path)
        self.bins[role].targets[release.path] = TargetFile.from_data(release.path, release.manifest, ["sha256"])
        return role, {release.path: release.manifest}

    def update(self, **new: object) -> None:
        with self.sessions() as session:
            service.update(
                session,
                MetadataUpdate(**new),  # type: ignore[arg-type]
                keys=self.keys,
                issuer=self.issuer,
                by="token:ci",
                now=NOW,
            )

    def into_bins(self) -> None:
        self.delegate()
        self.update(targets=self.next_targets(), bins=self.next_bins())

    def versions(self) -> dict[str, int]:
        with self.sessions() as session:
            return dict(service.versions(session))

    def read(self, name: str) -> bytes:
        with self.sessions() as session:
            return service.read_metadata(session, name)


def sign(content: Root | Targets, *signers: CryptoSigner) -> bytes:
    metadata: Metadata[Root] | Metadata[Targets] = Metadata(content)  # type: ignore[type-var,assignment]
    for signer in signers:
        metadata.sign(signer, append=True)
    return metadata.to_bytes()


@pytest.fixture
def repository() -> Iterator[Repository]:
    repository = Repository(make_keys())
    yield repository
    close_database(repository.sessions)


def test_releases_move_into_bins_by_an_ordinary_next_version(repository: Repository) -> None:
    release = make_release("m", 1)
    repository.update(targets=repository.publisher.next_targets(release), files={release.path: release.manifest})
    with repository.sessions() as session:
        flat = service.find_listed(session, name="m", version=1)
    del repository.publisher.targets.targets[release.path]
    repository.list_in_bin("m", 1)
    listing = repository.bins
    for content in listing.values():
        for path in content.targets:
            content.targets[path] = TargetFile.from_data(path, release.manifest, ["sha256"])
    repository.into_bins()
    with repository.sessions() as session:
        assert service.find_listed(session, name="m", version=1) == flat is not None
        assert service.find_listed(session, name="m", version=2) is None
    snapshot = Metadata[Snapshot].from_bytes(repository.read("3.snapshot.json")).signed
    assert {name: meta.version for name, meta in snapshot.meta.items()} == {
        "targets.json": 3,
        "bins-0.json": 1,
        "bins-1.json": 1,
    }


def test_release_changes_its_own_bin_alone(repository: Repository) -> None:
    repository.into_bins()
    role, files = repository.list_in_bin("m", 1)
    repository.update(bins={role: repository.next_bin(role)}, files=files)
    (other,) = set(repository.bins) - {role}
    versions = repository.versions()
    assert (versions["targets"], versions[role], versions[other]) == (2, 2, 1)


@pytest.mark.parametrize("version", [1, 3])
def test_bin_of_any_but_the_next_version_is_refused(repository: Repository, version: int) -> None:
    repository.into_bins()
    with pytest.raises(Conflict, match=f"metadata of bins-0: expected version 2, found {version}"):
        repository.update(bins={"bins-0": repository.next_bin("bins-0", version=version)})


def test_bin_by_another_key_is_refused(repository: Repository) -> None:
    repository.into_bins()
    with pytest.raises(Untrusted, match="metadata of bins-0: expected signatures by 1 of the keys"):
        repository.update(bins={"bins-0": repository.next_bin("bins-0", key=CryptoSigner.generate_ed25519())})


def test_release_in_the_wrong_bin_is_refused(repository: Repository) -> None:
    repository.into_bins()
    role, files = repository.list_in_bin("m", 1)
    (other,) = set(repository.bins) - {role}
    repository.bins[other].targets |= repository.bins[role].targets
    with pytest.raises(Refused, match=r"lists m/1/manifest\.json, which doesn't belong there"):
        repository.update(bins={other: repository.next_bin(other)}, files=files)


def test_release_beside_the_bins_is_refused(repository: Repository) -> None:
    repository.into_bins()
    release = make_release("m", 1)
    with pytest.raises(Refused, match="beside bins, which must list it"):
        repository.update(targets=repository.publisher.next_targets(release), files={release.path: release.manifest})


def test_bin_that_is_missing_is_refused(repository: Repository) -> None:
    repository.delegate()
    with pytest.raises(Refused, match="bins-1: the targets metadata names this bin, expected it to come along"):
        repository.update(targets=repository.next_targets(), bins={"bins-0": repository.next_bin("bins-0")})


@pytest.mark.parametrize(
    ("delegation", "reason"),
    [
        ({"prefix": "boxes"}, "expected bins named bins"),
        ({"bit_length": 13}, "by at most 12 bits"),
        ({"key": CryptoSigner.generate_ed25519()}, "to have the release keys and their threshold"),
    ],
)
def test_delegation_to_others_is_refused(repository: Repository, delegation: dict[str, object], reason: str) -> None:
    repository.delegate(**delegation)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=reason):
        repository.update(targets=repository.next_targets())


def test_bins_stay_once_they_are_there(repository: Repository) -> None:
    repository.into_bins()
    repository.publisher.targets.delegations = None
    with pytest.raises(Refused, match="expected its bins to stay"):
        repository.update(targets=repository.next_targets())


def test_root_is_replaced_by_the_keys_of_both(repository: Repository) -> None:
    old, new = repository.publisher.root_key, CryptoSigner.generate_ed25519()
    root = repository.publisher.root
    root.revoke_key(old.public_key.keyid, "root")
    root.add_key(new.public_key, "root")
    for signers, reason in (([new], "by the root before it"), ([old], "by itself")):
        with pytest.raises(Untrusted, match=reason):
            repository.update(roots=[repository.next_root(*signers)])
        root.version -= 1
    repository.update(roots=[repository.next_root(old, new)])
    assert (repository.versions()["root"], len(repository.read("1.root.json")) > 0) == (2, True)
    root.version += 1
    with pytest.raises(Conflict, match="expected version 3, found 4"):
        repository.update(roots=[repository.next_root(new)])


def test_other_release_keys_come_with_everything_signed_anew(repository: Repository) -> None:
    repository.into_bins()
    new, root = CryptoSigner.generate_ed25519(), repository.publisher.root
    root.revoke_key(repository.release_key.public_key.keyid, "targets")
    root.add_key(new.public_key, "targets")
    with pytest.raises(Refused, match="new targets metadata must come with that root"):
        repository.update(roots=[repository.next_root(repository.publisher.root_key)])
    root.version -= 1
    repository.release_key = new
    repository.delegate()
    roots = [repository.next_root(repository.publisher.root_key)]
    targets = repository.next_targets()
    with pytest.raises(Untrusted, match="metadata of bins-0"):
        repository.update(roots=roots, targets=targets)
    repository.update(roots=roots, targets=targets, bins=repository.next_bins())


def test_threshold_of_two_needs_two(repository: Repository) -> None:
    second, root = CryptoSigner.generate_ed25519(), repository.publisher.root
    root.add_key(second.public_key, "targets")
    root.roles["targets"].threshold = 2
    roots = [repository.next_root(repository.publisher.root_key)]
    targets = repository.publisher.targets
    targets.version = 2
    with pytest.raises(Untrusted, match="expected signatures by 2 of the keys"):
        repository.update(roots=roots, targets=sign(targets, repository.release_key))
    repository.update(roots=roots, targets=sign(targets, repository.release_key, second))


def floors(repository: Repository, **floors: int) -> None:
    content = json.dumps({"protocol": 1, "floors": floors}).encode()
    repository.publisher.list_target(FLOORS, content)
    repository.update(targets=repository.next_targets(), files={FLOORS: content})


def test_floors_never_sink(repository: Repository) -> None:
    floors(repository, m=3)
    with repository.sessions() as session:
        assert service.find_floors(session).floors == {"m": 3}
    for lower in ({"m": 2}, {"n": 9}):
        with pytest.raises(Refused, match="the floor of model m is 3"):
            floors(repository, **lower)
        repository.publisher.targets.version -= 1
    floors(repository, m=4, n=1)


@pytest.mark.parametrize(
    "content", [b"{}", b'{"certificates":[]}', b'{"certificates":["nonsense"]}'], ids=["nothing", "none", "nonsense"]
)
def test_authorities_that_no_device_can_read_are_refused(repository: Repository, content: bytes) -> None:
    repository.publisher.list_target(AUTHORITIES, content)
    with pytest.raises(Malformed, match=r"target keys/authorities\.json"):
        repository.update(targets=repository.next_targets(), files={AUTHORITIES: content})
    assert repository.versions()["targets"] == 1


def test_authorities_without_the_one_that_issues_are_refused(repository: Repository) -> None:
    first, second = make_certificate("first"), make_certificate("second")
    repository.issuer = fingerprint(second)
    with pytest.raises(Refused, match=f"expected the authority {fingerprint(second)}, .*found {fingerprint(first)}"):
        sign_authorities(repository, first)
    repository.publisher.targets.version -= 1
    sign_authorities(repository, second)
    sign_authorities(repository, first, second)


def test_authorities_of_before_stay_when_the_fleet_goes_over_to_another(repository: Repository) -> None:
    first, second = make_certificate("first"), make_certificate("second")
    repository.issuer = fingerprint(first)
    sign_authorities(repository, first)
    repository.issuer = fingerprint(second)
    repository.into_bins()
    role, files = repository.list_in_bin("m", 1)
    repository.update(bins={role: repository.next_bin(role)}, files=files)
    sign_authorities(repository, first, second)
    with pytest.raises(Refused, match="expected the authority"):  # its bytes are here from before
        repository.publisher.list_target(AUTHORITIES, authorities_json(first))
        repository.update(targets=repository.next_targets())


def test_assignment_keys_of_others_are_refused(repository: Repository) -> None:
    own, foreign = repository.keys.public.assignment, make_keys().public.assignment
    with pytest.raises(Refused, match="expected this fleet's assignment keys alone, found "):
        sign_assignment_keys(repository, own, foreign)
    repository.publisher.targets.version -= 1
    coming = rotate_keys(repository).public()["assignment"]
    sign_assignment_keys(repository, own, coming)


def sign_assignment_keys(repository: Repository, *keys: str) -> None:
    content = json.dumps({"protocol": 1, "keys": keys}).encode()
    repository.publisher.list_target(ASSIGNMENT_KEYS_PATH, content)
    repository.update(targets=repository.next_targets(), files={ASSIGNMENT_KEYS_PATH: content})


def sign_authorities(repository: Repository, *authorities: x509.Certificate) -> None:
    content = authorities_json(*authorities)
    repository.publisher.list_target(AUTHORITIES, content)
    repository.update(targets=repository.next_targets(), files={AUTHORITIES: content})


def authorities_json(*authorities: x509.Certificate) -> bytes:
    pems = [one.public_bytes(Encoding.PEM).decode() for one in authorities]
    return json.dumps({"protocol": 1, "certificates": pems}).encode()


def fingerprint(authority: x509.Certificate) -> str:
    return hashlib.sha256(authority.public_bytes(Encoding.DER)).hexdigest()


def rotate_keys(repository: Repository) -> SigningKeys:
    with repository.sessions() as session, writing(session):
        return make_next(session, vault=repository.keys.vault, now=NOW)


def has_next(repository: Repository) -> bool:
    with repository.sessions() as session:
        return repository.keys.find_next(session) is not None


def test_next_keys_of_the_fleet_count_once_root_and_assignment_keys_name_them(repository: Repository) -> None:
    coming = rotate_keys(repository)
    root, public = repository.publisher.root, coming.public()
    for role in ("snapshot", "timestamp"):
        (old,) = root.roles[role].keyids
        root.revoke_key(old, role)
        root.add_key(online_key(public[role]), role)
    roots = [repository.next_root(repository.publisher.root_key)]
    with pytest.raises(Refused, match="expected this fleet's assignment key in it"):
        repository.update(roots=roots)
    content = json.dumps({"protocol": 1, "keys": [public["assignment"]]}).encode()
    repository.publisher.list_target(ASSIGNMENT_KEYS_PATH, content)
    repository.update(roots=roots, targets=repository.next_targets(), files={ASSIGNMENT_KEYS_PATH: content})

    assert repository.keys.public.assignment == public["assignment"]
    assert not has_next(repository)
    with repository.sessions() as session:
        assert list_secret_keys(session) == set(NAMES)
    trusted = Metadata[Root].from_bytes(repository.read("2.root.json")).signed
    snapshot = Metadata[Snapshot].from_bytes(repository.read("2.snapshot.json"))
    trusted.verify_delegate("snapshot", snapshot.signed_bytes, snapshot.signatures)


def test_change_of_keys_that_an_earlier_version_began_is_finished_and_not_begun_anew(repository: Repository) -> None:
    coming, keys = rotate_keys(repository), repository.keys
    with repository.sessions() as session, writing(session):
        move_secret_key(session, "next-snapshot", to="snapshot", vault=keys.vault)
    assert rotate_keys(repository).public() == coming.public()
    with repository.sessions() as session:
        keys.take_up_next(session)
    assert not has_next(repository)
    assert {name: getattr(keys.public, name) for name in NAMES} == coming.public()


@pytest.mark.parametrize(
    ("days", "ending"),
    [(0, []), (61, ["targets", "bins"]), (91, ["targets", "bins"]), (306, ["targets", "bins", "root"])],
)
def test_what_ends_soon_is_told(repository: Repository, days: int, ending: Sequence[str]) -> None:
    repository.into_bins()
    with repository.sessions() as session:
        found = expiry.list_ending(session, now=NOW + days * DAY_S)
    assert {one.role for one in found} == set(ending)
    assert all(one.is_expired == (one.expires_at <= NOW + days * DAY_S) for one in found)


def test_what_ends_soon_is_said_once_a_day_and_known_at_each_look(
    repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    watch, at = expiry.ExpiryWatch(), NOW + 61 * DAY_S
    with repository.sessions() as session:
        for seconds in (0, 60):
            watch.look(session, now=at + seconds)
            assert [words.partition(" ends at ")[0] for words in watch.find_trouble()] == ["targets metadata"]
        assert len(caplog.records) == 1
        watch.look(session, now=NOW)
    assert watch.find_trouble() == []


def test_nothing_is_taken_beside_what_has_expired(repository: Repository) -> None:
    repository.into_bins()
    role, files = repository.list_in_bin("m", 1)
    repository.bins[role].expires = datetime.fromtimestamp(NOW, UTC) + timedelta(days=300)
    new = MetadataUpdate(bins={role: repository.next_bin(role)}, files=files)
    with repository.sessions() as session, pytest.raises(FleetError, match="targets metadata: expired at"):
        service.update(session, new, keys=repository.keys, issuer=ISSUER, by="token:ci", now=NOW + 91 * DAY_S)
