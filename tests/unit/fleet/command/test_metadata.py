"""What does a publisher sign next, and what of a fleet that can't be trusted does it refuse to build on?"""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from securesystemslib.signer import CryptoSigner
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.metadata import Signatories, lists
from shoal_wire.metadata import RELEASES_PER_BIN, SIGNED_AT, Floors
from tuf.api.metadata import Metadata, Root, Snapshot, TargetFile, Targets

from tests.unit.fleet.command.material import NOW
from tests.unit.fleet.command.signed_repository import SignedRepository

PATH = "notes/1/manifest.json"


def path_of(version: int) -> str:
    return f"notes/{version}/manifest.json"


def release(repository: SignedRepository, *versions: int, manifest: bytes = b"{}") -> list[str]:
    change = repository.change()
    for version in versions:
        change.list_release(path_of(version), manifest)
    return repository.publish(change)


def listed(repository: SignedRepository) -> dict[str, set[str]]:
    """Paths by the bin that lists them."""
    present = repository.present()
    assert present.bins is not None
    return {role: set(present.bin(role).signed.targets) for role in present.bins.get_roles()}


def make_authority(name: str) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    title = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(title, title, key.public_key(), 1, NOW, NOW + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256())


@pytest.fixture
def repository() -> SignedRepository:
    return SignedRepository()


def test_root_is_verified_by_an_independent_client_and_names_the_keys_of_the_fleet(
    repository: SignedRepository,
) -> None:
    root = Metadata[Root].from_bytes(repository.files["1.root.json"])
    root.verify_delegate("root", root)
    assert root.signed.consistent_snapshot
    assert root.signed.expires == NOW + timedelta(days=365)
    assert root.signed.unrecognized_fields[SIGNED_AT] == int(NOW.timestamp())
    names = {role: root.signed.roles[role].keyids for role in ("root", "targets", "snapshot", "timestamp")}
    assert len({keyid for keyids in names.values() for keyid in keyids}) == 4


def test_first_targets_list_the_assignment_key_alone(repository: SignedRepository) -> None:
    targets = Metadata[Targets].from_bytes(repository.files["1.targets.json"]).signed
    assert (targets.version, list(targets.targets), targets.delegations) == (1, ["keys/assignment.json"], None)
    content = repository.targets["keys/assignment.json"]
    targets.targets["keys/assignment.json"].verify_length_and_hashes(content)
    assert json.loads(content)["keys"] == [repository.fleet.assignment]


def test_first_release_makes_the_bins_and_later_ones_change_one_of_them(repository: SignedRepository) -> None:
    assert release(repository, 1) == ["targets", "bins-0", "bins-1"]
    assert len(release(repository, 2)) == 1
    assert set().union(*listed(repository).values()) == {path_of(1), path_of(2)}


def test_releases_that_the_targets_metadata_lists_itself_are_moved_into_bins(repository: SignedRepository) -> None:
    flat = Metadata[Targets].from_bytes(repository.files["1.targets.json"])
    flat.signed.targets |= {path_of(n): TargetFile.from_data(path_of(n), b"{}", ["sha256"]) for n in range(300)}
    flat.signed.version = 2
    flat.signatures.clear()
    repository.keep("targets", flat)

    new = release(repository, 300)

    assert new == ["targets", *(f"bins-{number}" for number in range(8))]
    assert set().union(*listed(repository).values()) == {path_of(n) for n in range(301)}
    assert list(repository.present().targets.signed.targets) == ["keys/assignment.json"]


def test_there_are_more_bins_as_releases_grow_and_never_fewer(repository: SignedRepository) -> None:
    release(repository, *range(1, 400))
    sizes = [len(paths) for paths in listed(repository).values()]
    assert (len(sizes), sum(sizes)) == (8, 399)
    assert max(sizes) < 2 * RELEASES_PER_BIN
    change = repository.change()
    change.keep_only([path_of(1)])
    repository.publish(change)
    assert sorted(map(len, listed(repository).values())) == [0] * 7 + [1]
    versions = [repository.versions[f"bins-{number}"] for number in range(8)]
    assert min(versions) >= 2  # a bin that was there keeps counting


def test_same_release_is_recognised_and_another_content_is_refused(repository: SignedRepository) -> None:
    release(repository, 1, manifest=b"manifest")
    present = repository.present()
    assert lists(present, PATH, b"manifest")
    assert not lists(present, path_of(2), b"manifest")
    with pytest.raises(CommandError, match="raise its version"):
        lists(present, PATH, b"Manifest")


def test_release_keys_sign_everything_anew_when_they_change(repository: SignedRepository) -> None:
    release(repository, 1)
    new = CryptoSigner.generate_ed25519()
    change = repository.change()
    change.set_role("targets", Signatories(1, [new.public_key]))
    following = change.finish()
    assert following.root is not None and following.targets is not None
    assert (following.root.signed.version, following.targets.signed.version) == (2, 3)
    assert {role: bin_.signed.version for role, bin_ in following.bins.items()} == {"bins-0": 2, "bins-1": 2}
    assert following.targets.signed.delegations is not None
    assert list(following.targets.signed.delegations.keys) == [new.public_key.keyid]
    assert following.root.signed.roles["targets"].keyids == [new.public_key.keyid]
    # What was there is as it was.
    assert repository.present().root.signed.roles["targets"].keyids == [repository.signers["targets"].public_key.keyid]


def test_floors_are_a_target_of_their_own(repository: SignedRepository) -> None:
    release(repository, 1)
    change = repository.change()
    assert change.floors == Floors()
    assert change.unlist([PATH, path_of(9)]) == [PATH]
    change.set_floors(Floors(floors={"notes": 2}))
    new = repository.publish(change)
    assert "targets" in new and len(new) == 2
    assert repository.present().floors() == Floors(floors={"notes": 2})
    assert repository.present().find(PATH) is None


def test_authorities_are_a_target_of_their_own_which_the_last_list_replaces(repository: SignedRepository) -> None:
    assert repository.present().authorities() == ()
    first, second = make_authority("first"), make_authority("second")
    for named in ([first], [first, second], [second]):
        change = repository.change()
        change.set_authorities(named)
        assert "targets" in repository.publish(change)
        assert repository.present().authorities() == tuple(named)
    assert repository.present().assignment_keys().keys == (repository.fleet.assignment,)


def test_refresh_signs_what_ends_soon_and_nothing_else(repository: SignedRepository) -> None:
    release(repository, 1)
    later = NOW + timedelta(days=60)
    change = repository.change(now=later)
    change.refresh(before=later + timedelta(days=45))
    assert repository.publish(change) == ["targets", "bins-0", "bins-1"]
    change = repository.change(now=later)
    change.refresh(before=later + timedelta(days=45))
    assert change.finish() == (None, None, {}, {})
    change.refresh(before=None)
    assert change.finish().root is not None


def test_fleet_that_offers_older_metadata_than_was_signed_is_refused(repository: SignedRepository) -> None:
    release(repository, 1)
    release(repository, 2)
    repository.versions["targets"] = 1
    with pytest.raises(CommandError, match=r"offers version 1 of the targets metadata, but version 2 was signed here"):
        repository.present()


def test_fleet_that_offers_an_older_bin_is_refused(repository: SignedRepository) -> None:
    release(repository, 1)
    release(repository, 2)
    (role,) = [role for role, version in repository.versions.items() if role.startswith("bins") and version == 2]
    repository.versions[role] = 1
    with pytest.raises(CommandError, match=f"offers version 1 of the metadata of {role}"):
        repository.present().bin(role)


def test_fleet_that_offers_another_text_of_the_last_version_is_refused(repository: SignedRepository) -> None:
    release(repository, 1)
    other = Metadata[Targets].from_bytes(repository.files["2.targets.json"])
    other.signed.expires += timedelta(days=1)
    mine = repository.signed["targets"]
    other.signatures.clear()
    repository.keep("targets", other)
    repository.signed["targets"] = mine
    with pytest.raises(CommandError, match="another version 2"):
        repository.present()


def test_fleet_that_offers_a_later_version_of_this_publisher_is_built_upon(repository: SignedRepository) -> None:
    before = dict(repository.signed)
    release(repository, 1)
    repository.signed = before
    assert repository.present().targets.signed.version == 2


def _by_another_key(raw: bytes) -> bytes:
    metadata = Metadata[Targets].from_bytes(raw)
    metadata.signatures.clear()
    metadata.sign(CryptoSigner.generate_ed25519())
    return metadata.to_bytes()


def _unsigned(raw: bytes) -> bytes:
    metadata = Metadata[Targets].from_bytes(raw)
    metadata.signatures.clear()
    return metadata.to_bytes()


def _signature_of_other_bytes(raw: bytes) -> bytes:
    metadata = Metadata[Targets].from_bytes(raw)
    metadata.signed.version = 9
    return metadata.to_bytes()


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (_by_another_key, "not signed by this publisher"),
        (lambda raw: raw.replace(b"keys/assignment.json", b"keys/Assignment.json"), "not signed by this publisher"),
        (_unsigned, "not signed by this publisher"),
        (_signature_of_other_bytes, "not signed by this publisher"),
        (lambda _: Metadata(Snapshot()).to_bytes(), "expected the role targets, found snapshot"),
        (lambda _: b"", "not readable"),
        (lambda _: b"[]", "not readable"),
        (lambda _: b"[" * 100_000, "not readable"),
    ],
)
def test_targets_that_this_publisher_did_not_sign_are_refused(
    repository: SignedRepository, offer: Callable[[bytes], bytes], reason: str
) -> None:
    repository.files["1.targets.json"] = offer(repository.files["1.targets.json"])
    with pytest.raises(CommandError, match=reason):
        repository.present(remembers=False)


def test_root_that_the_last_one_did_not_sign_is_refused(repository: SignedRepository) -> None:
    change = repository.change()
    change.set_role("root", Signatories(1, [CryptoSigner.generate_ed25519().public_key]))
    following = change.finish().root
    assert following is not None
    following.sign(CryptoSigner.generate_ed25519())
    repository.files["2.root.json"] = following.to_bytes()
    with pytest.raises(CommandError, match="the fleet's root metadata: not signed by this publisher"):
        repository.present()
