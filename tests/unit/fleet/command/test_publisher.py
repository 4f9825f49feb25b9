"""Does the publisher's folder keep its secrets, come back as it was, and refuse what is not its own?"""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from securesystemslib.signer import Signer
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.publisher import FleetKeys, Publisher, RoleKeys
from shoal_wire.errors import Malformed

from tests.unit.fleet.command.material import make_fleet_keys

SHA256 = "ab" * 32


@pytest.fixture
def fleet() -> FleetKeys:
    return make_fleet_keys()


def create(folder: Path, fleet: FleetKeys, *, passphrase: bytes | None = None) -> Publisher:
    publisher = Publisher(folder, passphrase=passphrase)
    publisher.create(fleet)
    return publisher


def sign_as(publisher: Publisher, role: str) -> Signer:
    """The one signer of a role."""
    (signer,) = publisher.signers([name.keyid for name in publisher.role_keys(role).keys])
    return signer


def test_files_are_for_the_owner_alone(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path / "deep" / "publisher", fleet)
    publisher.content_keys.get(SHA256)
    publisher.record_signed(b"targets", version=1)
    modes = {path: path.stat().st_mode & 0o777 for path in (publisher.folder, *publisher.folder.rglob("*"))}
    assert len(modes) == 8
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_making_keys_again_changes_nothing(tmp_path: Path, fleet: FleetKeys) -> None:
    before = [sign_as(create(tmp_path, fleet), role).public_key.keyid for role in ("root", "targets")]
    after = [sign_as(create(tmp_path, fleet), role).public_key.keyid for role in ("root", "targets")]
    assert before == after
    assert before[0] != before[1]


def test_interrupted_making_is_finished(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path, fleet)
    root = sign_as(publisher, "root").public_key.keyid
    for name in ("publisher.json", "targets.pem"):
        (tmp_path / name).unlink()
    assert not publisher.exists()
    assert sign_as(create(tmp_path, fleet), "root").public_key.keyid == root
    sign_as(publisher, "targets")


def test_folder_of_another_fleet_is_refused(tmp_path: Path, fleet: FleetKeys) -> None:
    create(tmp_path, fleet)
    with pytest.raises(UsageError, match="for another fleet"):
        create(tmp_path, make_fleet_keys())


def test_passphrase_encrypts_the_keys(tmp_path: Path, fleet: FleetKeys) -> None:
    sign_as(create(tmp_path, fleet, passphrase=b"correct horse"), "targets")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in (tmp_path / "root.pem").read_bytes()
    for passphrase, reason in ((b"wrong", "passphrase is another"), (None, "is encrypted: give --passphrase-file")):
        with pytest.raises(UsageError, match=reason):
            sign_as(Publisher(tmp_path, passphrase=passphrase), "targets")


def test_needless_passphrase_is_refused(tmp_path: Path, fleet: FleetKeys) -> None:
    create(tmp_path, fleet)
    with pytest.raises(UsageError, match="isn't encrypted: leave out --passphrase-file"):
        sign_as(Publisher(tmp_path, passphrase=b"x"), "root")


def test_what_is_missing_is_named_with_the_next_step(tmp_path: Path, fleet: FleetKeys) -> None:
    nowhere = Publisher(tmp_path / "nowhere", passphrase=None)
    for use in (lambda: sign_as(nowhere, "root"), nowhere.fleet_keys, lambda: nowhere.locked().__enter__()):
        with pytest.raises(UsageError, match="run `shoal keys init --publisher"):
            use()
    publisher = create(tmp_path, fleet)
    (tmp_path / "root.pem").unlink()
    with pytest.raises(UsageError, match=r"root\.pem is missing: restore the publisher's folder"):
        sign_as(publisher, "root")


@pytest.mark.parametrize("text", ["", "{}", '{"snapshot": 1}', "[" * 100_000])
def test_damaged_description_is_refused(tmp_path: Path, fleet: FleetKeys, text: str) -> None:
    publisher = create(tmp_path, fleet)
    (tmp_path / "publisher.json").write_text(text)
    with pytest.raises(CommandError, match="restore the publisher's folder"):
        publisher.fleet_keys()


def test_content_key_belongs_to_one_plaintext_for_good(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path, fleet)
    key = publisher.content_keys.get(SHA256)
    assert len(key) == 32
    assert Publisher(tmp_path, passphrase=None).content_keys.get(SHA256) == key
    assert publisher.content_keys.get("cd" * 32) != key


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: {**kept, "plaintext_sha256": "cd" * 32},
        lambda kept: {**kept, "key": "AAAA"},
        lambda kept: {**kept, "key": "A"},
        lambda kept: {},
    ],
)
def test_damaged_content_key_is_refused_and_never_replaced(
    tmp_path: Path, fleet: FleetKeys, damage: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    publisher = create(tmp_path, fleet)
    publisher.content_keys.get(SHA256)
    path = tmp_path / "content-keys" / f"{SHA256}.json"
    damaged = json.dumps(damage(json.loads(path.read_text())))
    path.write_text(damaged)
    with pytest.raises(CommandError, match="restore the publisher's folder"):
        publisher.content_keys.get(SHA256)
    assert path.read_text() == damaged


def test_last_signed_is_the_highest_number(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path, fleet)
    assert publisher.last_signed() is None
    for version in (1, 9, 10):
        publisher.record_signed(f"{version}".encode(), version=version)
    (tmp_path / "signed" / "notes.targets.json").touch()
    (tmp_path / "signed" / ".11.targets.json.tmp").touch()
    assert publisher.last_signed() == b"10"


def test_second_command_is_kept_out(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path, fleet)
    with publisher.locked(), pytest.raises(CommandError, match="another `shoal` is at work"):
        Publisher(tmp_path, passphrase=None).locked().__enter__()
    with publisher.locked():
        pass


@pytest.mark.parametrize("name", ["snapshot", "timestamp", "assignment", "hpke"])
@pytest.mark.parametrize("value", ["", "AAAA", "not base64"])
def test_fleet_key_that_is_no_key_is_refused(fleet: FleetKeys, name: str, value: str) -> None:
    fleet.check()
    with pytest.raises(Malformed, match=name if name != "hpke" else "HPKE"):
        msgspec.structs.replace(fleet, **{name: value}).check()


def test_folder_of_before_names_no_keys_and_they_are_the_files_beside(tmp_path: Path, fleet: FleetKeys) -> None:
    made = create(tmp_path, fleet)
    (tmp_path / "publisher.json").write_bytes(msgspec.json.encode(fleet))
    older = Publisher(tmp_path, passphrase=None)
    assert [older.role_keys(role) for role in ("root", "targets")] == [
        RoleKeys(1, (made.adopt(f"file:{role}.pem"),)) for role in ("root", "targets")
    ]


def test_key_of_another_is_known_by_its_public_half(tmp_path: Path, fleet: FleetKeys) -> None:
    other = create(tmp_path / "other", make_fleet_keys())
    public = serialization.load_pem_private_key((tmp_path / "other" / "root.pem").read_bytes(), None).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "ben.pem").write_bytes(pem)
    publisher = Publisher(tmp_path, passphrase=None)
    keys = RoleKeys(2, (publisher.adopt("file:anna.pem"), publisher.adopt("file:ben.pem")))
    publisher.create(fleet, keys={"root": keys})
    assert keys.keys[1].keyid == other.role_keys("root").keys[0].keyid
    ids = [name.keyid for name in publisher.role_keys("root").keys]
    assert [signer.public_key.keyid for signer in publisher.signers(ids)] == ids[:1]
    with pytest.raises(CommandError, match=r"ben\.pem holds the public half alone"):
        publisher.signers(ids[1:])


def test_file_that_holds_another_key_by_now_signs_nothing(tmp_path: Path, fleet: FleetKeys) -> None:
    publisher = create(tmp_path, fleet)
    (tmp_path / "targets.pem").write_bytes((tmp_path / "root.pem").read_bytes())
    with pytest.raises(UsageError, match=r"targets\.pem: holds another key than the one that was registered"):
        sign_as(publisher, "targets")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("gnupg:abc", "expected a URI that begins with one of file:, hsm:"),
        ("root.pem", "expected a URI"),
        ("file:", "expected a file"),
        ("awskms:alias/x", r"pip install 'securesystemslib\[awskms\]'"),
        ("gcpkms:projects/x", r"pip install 'securesystemslib\[gcpkms\]'"),
        ("azurekms://x.vault.azure.net/keys/y", r"pip install 'securesystemslib\[azurekms\]'"),
        ("hv:release/1", r"pip install 'securesystemslib\[vault\]'"),
    ],
)
def test_key_that_cannot_be_had_is_refused_with_the_next_step(tmp_path: Path, uri: str, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        Publisher(tmp_path, passphrase=None).adopt(uri)
