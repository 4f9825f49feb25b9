"""What does a publisher sign, and what of a fleet that can't be trusted does it refuse?"""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from securesystemslib.signer import CryptoSigner
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.metadata import add_release, check_root, first_root, first_targets, lists, verify_current
from tuf.api.metadata import Metadata, Root, Snapshot, Targets

from tests.unit.fleet.command.material import NOW, make_fleet_keys

PATH = "notes/1/manifest.json"


@pytest.fixture
def signer() -> CryptoSigner:
    return CryptoSigner.generate_ed25519()


def sign_versions(signer: CryptoSigner, count: int, *, manifest: bytes = b"{}") -> list[bytes]:
    """Targets metadata of the versions 1 to `count`, each with one release more."""
    raw, _ = first_targets(signer, make_fleet_keys(), now=NOW)
    versions = [raw]
    for number in range(1, count):
        current = verify_current(versions[-1], None, signer)
        path = f"notes/{number}/manifest.json"
        versions.append(add_release(current, signer, path=path, manifest=manifest, now=NOW)[0])
    return versions


def test_root_is_verified_by_an_independent_client_and_names_the_keys_of_the_fleet(signer: CryptoSigner) -> None:
    fleet, targets = make_fleet_keys(), CryptoSigner.generate_ed25519()
    root = Metadata[Root].from_bytes(first_root(signer, targets, fleet, now=NOW))
    root.verify_delegate("root", root)
    assert root.signed.consistent_snapshot
    assert root.signed.expires == NOW + timedelta(days=365)
    assert root.signed.roles["targets"].keyids == [targets.public_key.keyid]
    keys = {role: root.signed.keys[root.signed.roles[role].keyids[0]] for role in ("snapshot", "timestamp")}
    assert keys["snapshot"] != keys["timestamp"]
    assert {signer.public_key.keyid, targets.public_key.keyid}.isdisjoint(key.keyid for key in keys.values())


def test_first_targets_list_the_assignment_key_alone(signer: CryptoSigner) -> None:
    fleet = make_fleet_keys()
    raw, keys = first_targets(signer, fleet, now=NOW)
    targets = Metadata[Targets].from_bytes(raw).signed
    assert (targets.version, list(targets.targets)) == (1, ["keys/assignment.json"])
    targets.targets["keys/assignment.json"].verify_length_and_hashes(keys)
    assert json.loads(keys)["keys"] == [fleet.assignment]


def test_release_is_added_with_the_next_version_and_a_new_expiry(signer: CryptoSigner) -> None:
    current = verify_current(sign_versions(signer, 1)[0], None, signer)
    later = NOW + timedelta(days=30)
    raw, version = add_release(current, signer, path=PATH, manifest=b"manifest", now=later)
    signed = Metadata[Targets].from_bytes(raw)
    signer.public_key.verify_signature(signed.signatures[signer.public_key.keyid], signed.signed_bytes)
    assert (version, signed.signed.version) == (2, 2)
    assert signed.signed.expires == later + timedelta(days=90)
    signed.signed.targets[PATH].verify_length_and_hashes(b"manifest")
    assert "keys/assignment.json" in signed.signed.targets


def test_same_release_is_recognised_and_another_content_is_refused(signer: CryptoSigner) -> None:
    current = verify_current(sign_versions(signer, 2, manifest=b"manifest")[-1], None, signer)
    assert lists(current, PATH, b"manifest")
    assert not lists(current, "notes/2/manifest.json", b"manifest")
    with pytest.raises(CommandError, match="raise its version"):
        lists(current, PATH, b"Manifest")


def test_fleet_that_offers_older_targets_than_signed_is_refused(signer: CryptoSigner) -> None:
    versions = sign_versions(signer, 3)
    with pytest.raises(CommandError, match=r"offers version 2 .* version 3 was signed here"):
        verify_current(versions[1], versions[2], signer)


def test_fleet_that_offers_another_text_of_the_last_version_is_refused(signer: CryptoSigner) -> None:
    one, other = sign_versions(signer, 2)[-1], sign_versions(signer, 2, manifest=b"[]")[-1]
    with pytest.raises(CommandError, match="another version 2"):
        verify_current(one, other, signer)


def test_fleet_that_offers_a_later_version_of_this_publisher_is_built_upon(signer: CryptoSigner) -> None:
    versions = sign_versions(signer, 3)
    assert verify_current(versions[2], versions[1], signer).signed.version == 3
    assert verify_current(versions[1], versions[1], signer).signed.version == 2


def _by_another_key(signer: CryptoSigner) -> bytes:
    return sign_versions(CryptoSigner.generate_ed25519(), 1)[0]


def _changed(signer: CryptoSigner) -> bytes:
    raw = sign_versions(signer, 1)[0]
    changed = raw.replace(b"keys/assignment.json", b"keys/Assignment.json")
    assert changed != raw
    return changed


def _unsigned(signer: CryptoSigner) -> bytes:
    metadata = Metadata[Targets].from_bytes(sign_versions(signer, 1)[0])
    metadata.signatures.clear()
    return metadata.to_bytes()


def _signature_of_other_bytes(signer: CryptoSigner) -> bytes:
    metadata = Metadata[Targets].from_bytes(sign_versions(signer, 1)[0])
    metadata.signed.version = 9
    return metadata.to_bytes()


def _other_role(signer: CryptoSigner) -> bytes:
    metadata = Metadata(Snapshot())
    metadata.sign(signer)
    return metadata.to_bytes()


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (_by_another_key, "not signed by this publisher"),
        (_changed, "not signed by this publisher"),
        (_unsigned, "not signed by this publisher"),
        (_signature_of_other_bytes, "not signed by this publisher"),
        (_other_role, "expected the role targets, found snapshot"),
        (lambda _: b"", "not readable"),
        (lambda _: b"[]", "not readable"),
        (lambda _: b"[" * 100_000, "not readable"),
    ],
)
def test_targets_that_this_publisher_did_not_sign_are_refused(
    signer: CryptoSigner, offer: Callable[[CryptoSigner], bytes], reason: str
) -> None:
    with pytest.raises(CommandError, match=reason):
        verify_current(offer(signer), None, signer)


def test_root_of_another_publisher_is_refused(signer: CryptoSigner) -> None:
    other = CryptoSigner.generate_ed25519()
    root = first_root(other, other, make_fleet_keys(), now=NOW)
    check_root(root, other)
    with pytest.raises(CommandError, match="not signed by this publisher"):
        check_root(root, signer)
