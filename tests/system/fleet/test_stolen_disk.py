"""Does a stolen state folder give no model, a revoked device no new key, and resealing the contents another one?

One fleet lives through it: a publisher releases recognisable weights, two boards get them, one is revoked, the
contents are sealed anew. Then the fleet's disk is stolen, without the key-encryption key.
"""

import base64
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from shoal_wire import sealed_file, topics
from shoal_wire.encoding import decode
from shoal_wire.errors import WireError
from shoal_wire.grant import MLKEM768_X25519, X25519, GrantContext, RecipientKeys, open_grant
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text
from shoal_wire.messages import Assignment, Desired, EnrolmentResponse
from shoal_wire.topics import Down

from tests.system.fleet.broker_site import Client, Refused
from tests.system.fleet.byte_scan import encodings, find, secret_bytes
from tests.system.fleet.fleet_site import EnrolledBoard, Fleet, FleetProgram, message_of, private_keys_of, run_cli
from tests.unit.fleet.command.material import write_release_folder
from tests.unit.fleet.enrolment.applicant import Applicant

SHOAL = str(Path(sys.executable).parent / "shoal")
SIGNING = ("snapshot", "timestamp", "assignment")
PRIVATE_KEYS = {*SIGNING, *(f"next-{name}" for name in SIGNING), "audit", "hpke", "hpke-hybrid"} | {
    "authority-1",
    "authority-2",
}
"""Of a fleet in which new signing keys wait, and one authority has followed another."""
WEIGHTS = random.Random(5).randbytes(96 << 10)
GOLDEN = random.Random(6).randbytes(300)


@dataclass
class Story:
    """What happened, and what is left of it."""

    fleet: Fleet
    home: Path
    kek: Path
    kept: EnrolledBoard
    lost: EnrolledBoard
    hybrid: HybridPrivateKey
    """Of the board that is kept."""

    def shoal(self, *arguments: str) -> Any:
        """What a command printed with --json."""
        environment = {**os.environ, "SHOAL_LOGIN": str(self.home / "login.json")}
        done = subprocess.run(
            [SHOAL, *arguments, "--json"], capture_output=True, text=True, timeout=120, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def signing(self) -> tuple[str, ...]:
        return ("--publisher", str(self.home / "publisher"))

    def roll_out(self, version: int, *devices: str) -> None:
        body = {"release": "notes", "version": version, "devices": list(devices)}
        self.fleet.post("/api/v1/rollouts", body)

    def manifest(self, version: int) -> Mapping[str, Any]:
        manifest: Mapping[str, Any] = self.fleet.get(f"/api/v1/releases/notes/{version}")["manifest"]
        return manifest

    def open_assigned(self, board: EnrolledBoard, keys: RecipientKeys) -> tuple[Assignment, dict[str, bytes]]:
        """What a board receives from the broker, with the content keys that it can open."""
        assignment = receive(board).assignments[0]
        context = GrantContext(assignment.release, assignment.version, board.answer.device)
        return assignment, {
            grant.ciphertext_sha256: open_grant(grant, keys, context=context) for grant in assignment.grants
        }


def receive(board: EnrolledBoard) -> Desired:
    """The desired document that the broker keeps for a board."""
    device = board.answer.device
    client = Client(
        port=board.answer.broker_port, context=board.context(), client_id=device, keeps_session=False, will=None
    )
    try:
        client.subscribe(topics.down(device, Down.DESIRED))
        _, payload = client.receive()
    finally:
        client.close()
    inside = base64.b64decode(json.loads(payload)["payload"])
    return decode(inside, Desired, what="desired")


def fetch(board: EnrolledBoard, digest: str) -> bytes:
    with board.client() as http:
        return http.get(f"/v1/sealed/{digest}").content


def unsealed(raw: bytes, key: bytes) -> bytes:
    cut = iter([raw[: sealed_file.HEADER_BYTES], raw[sealed_file.HEADER_BYTES :]])
    return b"".join(sealed_file.unseal(cut, key))


def enrol(fleet: Fleet, name: str, *, hybrid_key: str | None = None) -> EnrolledBoard:
    applicant = Applicant()
    reply = fleet.ask_to_enrol(fleet.make_token(name), applicant.sign(hybrid_key=hybrid_key))
    assert reply.status_code == 200, reply.text
    answer = decode(reply.content, EnrolmentResponse, what="answer")
    return EnrolledBoard(fleet.program.state.parent, applicant, answer)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A fleet under a key that lies elsewhere, with a release and two boards that were given it."""
    if shutil.which("mosquitto") is None:
        pytest.skip("mosquitto isn't installed")
    folder, home = tmp_path_factory.mktemp("stolen"), tmp_path_factory.mktemp("publisher")
    kek = home / "kek.key"
    program = FleetProgram(folder / "state", "--kek", f"file:{kek}")
    fleet = Fleet(program, token=program.lines[0]["token"])
    hybrid = HybridPrivateKey.generate()
    story = Story(fleet, home, kek, None, None, hybrid)  # type: ignore[arg-type]
    try:
        login = {"url": program.addresses["operators_url"], "token": fleet.token}
        login["authority"] = ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(program.authority.read_text()))
        (home / "login.json").write_text(json.dumps(login))
        (home / "login.json").chmod(0o600)
        story.shoal("keys", "init", *story.signing())
        release = write_release_folder(
            home / "release", name="notes", version=1, contents={"model": WEIGHTS, "golden": GOLDEN}
        )
        story.shoal("release", "create", str(release), *story.signing())
        story.lost = enrol(fleet, "lost")
        story.kept = enrol(fleet, "kept", hybrid_key=hybrid_public_text(hybrid.public_key()))
        story.roll_out(1, "all")
        yield story
    finally:
        fleet.http.close()
        if program.process.poll() is None:
            program.end()


@pytest.fixture(scope="module")
def first_keys(story: Story) -> Mapping[str, bytes]:
    """The content keys that the board which is revoked later was given, by digest of the sealed file."""
    assignment, keys = story.open_assigned(story.lost, RecipientKeys(story.lost.applicant.hpke))
    assert {grant.suite for grant in assignment.grants} == {X25519}
    return keys


def test_board_opens_what_it_was_given(story: Story, first_keys: Mapping[str, bytes]) -> None:
    files = {file["name"]: file["ciphertext_sha256"] for file in story.manifest(1)["files"]}
    assert unsealed(fetch(story.lost, files["model"]), first_keys[files["model"]]) == WEIGHTS
    assert unsealed(fetch(story.lost, files["golden"]), first_keys[files["golden"]]) == GOLDEN


def test_board_with_a_hybrid_key_gets_the_same_keys_by_the_hybrid_suite(
    story: Story, first_keys: Mapping[str, bytes]
) -> None:
    keys = RecipientKeys(story.kept.applicant.hpke, story.hybrid)
    assignment, opened = story.open_assigned(story.kept, keys)
    assert {grant.suite for grant in assignment.grants} == {MLKEM768_X25519}
    assert opened == first_keys


def test_key_that_lies_elsewhere_is_named_without_a_warning(story: Story) -> None:
    shown = story.fleet.get("/api/v1/kek")
    assert (shown["kek"], shown["is_beside_database"], shown["warning"]) == (f"file:{story.kek}", False, "")


@pytest.fixture(scope="module")
def revoked(story: Story, first_keys: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """One board was shut out; the content keys that it holds."""
    story.shoal("device", "revoke", "lost", "--yes")
    return first_keys


def test_files_that_a_revoked_board_holds_the_keys_of_are_exposed(story: Story, revoked: Mapping[str, bytes]) -> None:
    shown = story.shoal("device", "exposed", story.lost.answer.device)
    assert shown["is_revoked"]
    assert {file["ciphertext_sha256"] for file in shown["files"]} == revoked.keys()
    assert {(file["release"], file["version"], file["file"]) for file in shown["files"]} == {
        ("notes", 1, "model"),
        ("notes", 1, "golden"),
    }
    # The other board is assigned the release still.
    assert {(file["assigned_devices"], file["replaced_by"]) for file in shown["files"]} == {(1, None)}


@pytest.mark.usefixtures("revoked")
def test_revoked_board_gets_no_new_grant(story: Story) -> None:
    body = {"release": "notes", "version": 1, "devices": [story.lost.answer.device]}
    reply = story.fleet.http.post("/api/v1/rollouts", json=body)
    assert reply.status_code == 422
    assert "is revoked" in message_of(reply)
    before = story.fleet.get(f"/api/v1/devices/{story.lost.answer.device}/exposed")
    story.roll_out(1, "all")
    assert story.fleet.get(f"/api/v1/devices/{story.lost.answer.device}/exposed") == before
    with pytest.raises((OSError, Refused)):
        receive(story.lost)


@pytest.fixture(scope="module")
def resealed(story: Story, revoked: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The exposed contents were released under new keys, and the board that is kept was given them."""
    made = story.shoal("keys", "reseal", "--exposed", *story.signing())["releases"]
    assert [(one["version"], one["contents_of"], one["resealed_files"]) for one in made] == [(2, 1, 2)]
    story.roll_out(2, "all")
    _, keys = story.open_assigned(story.kept, RecipientKeys(story.kept.applicant.hpke, story.hybrid))
    assert not set(keys.values()) & set(revoked.values())
    return keys


def test_resealed_release_has_the_same_contents_under_other_keys(
    story: Story, revoked: Mapping[str, bytes], resealed: Mapping[str, bytes]
) -> None:
    before, after = story.manifest(1), story.manifest(2)
    for old, new in zip(before["files"], after["files"], strict=True):
        assert (old["name"], old["plaintext_sha256"]) == (new["name"], new["plaintext_sha256"])
        assert old["ciphertext_sha256"] != new["ciphertext_sha256"]
    files = {file["name"]: file["ciphertext_sha256"] for file in after["files"]}
    sealed = fetch(story.kept, files["model"])
    assert unsealed(sealed, resealed[files["model"]]) == WEIGHTS
    for key in revoked.values():
        with pytest.raises(WireError):
            unsealed(sealed, key)


@pytest.mark.usefixtures("resealed")
def test_fleet_says_where_exposed_contents_are_under_another_key(story: Story) -> None:
    shown = story.fleet.get("/api/v1/exposed")
    assert {(file["version"], file["assigned_devices"], file["replaced_by"]) for file in shown["files"]} == {(1, 0, 2)}
    assert story.shoal("keys", "reseal", "--exposed", *story.signing()) == {"releases": []}


def test_stolen_state_folder_holds_no_weights_and_no_key(
    story: Story, revoked: Mapping[str, bytes], resealed: Mapping[str, bytes], tmp_path: Path
) -> None:
    program = story.fleet.program
    live, stolen = tmp_path / "live", program.state
    shutil.copytree(stolen, live)  # with the database and its log as they are while it runs
    story.fleet.http.close()
    assert program.end() == 0, program.log.read_text()
    kek = base64.b64decode(story.kek.read_text())
    keys = {f"content key of {digest[:8]}": key for digest, key in {**revoked, **resealed}.items()}
    secrets = {**keys, "key-encryption key": kek}
    for kind in ("keys", "authority"):
        done = run_cli(stolen, kind, "rotate")
        assert done.returncode == 0, done.stderr
    private = private_keys_of(stolen)
    assert private.keys() == PRIVATE_KEYS
    secrets |= {name: secret_bytes(name, kept) for name, kept in private.items()}
    for folder in (live, stolen):
        assert find(folder, short=secrets, long=WEIGHTS + GOLDEN) == []
    # The scan finds what is there: a device's public key, and what was sealed.
    assert find(stolen, short={"name": b"d-" + story.kept.answer.device.encode()[2:]}, long=bytes(64)) != []
    story.kek.rename(story.kek.with_suffix(".away"))
    refused = run_cli(stolen, "init")
    assert refused.returncode == 2
    assert "without this key no secret of the fleet opens" in refused.stderr
    for kind in ("keys", "authority"):
        assert run_cli(stolen, kind, "rotate").returncode == 2
    (story.kek).write_text(base64.b64encode(bytes(32)).decode())
    guessed = run_cli(stolen, "init")
    assert guessed.returncode == 2
    assert "is not the key that the fleet's secrets are under" in guessed.stderr


@pytest.mark.parametrize(
    ("how", "encoding"),
    [
        (PrivateFormat.PKCS8, Encoding.PEM),
        (PrivateFormat.PKCS8, Encoding.DER),
        (PrivateFormat.OpenSSH, Encoding.PEM),
        (PrivateFormat.TraditionalOpenSSL, Encoding.PEM),
    ],
    ids=["pem", "der", "openssh", "traditional"],
)
def test_scan_finds_a_private_key_however_it_is_written(how: PrivateFormat, encoding: Encoding, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "key").write_bytes(key.private_bytes(encoding, how, NoEncryption()))
    kept = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert find(tmp_path, short={"key": secret_bytes("authority-1", kept)}, long=b"") == [f"{tmp_path / 'key'}: key"]


def test_scan_finds_a_secret_however_it_is_written(tmp_path: Path) -> None:
    secret = random.Random(7).randbytes(32)
    for number, encoded in enumerate(
        [secret, secret.hex().encode(), *(base64.b64encode(bytes(shift) + secret + b"after") for shift in range(3))]
    ):
        (tmp_path / str(number)).write_bytes(b"before" + encoded)
    for shift in (0, 1, 9, 15):
        (tmp_path / f"weights-{shift}").write_bytes(b"." * shift + WEIGHTS[1001 : 1001 + 32])
    assert len(find(tmp_path, short={"secret": secret}, long=WEIGHTS)) == 9
    assert len(encodings(secret)) == 9
