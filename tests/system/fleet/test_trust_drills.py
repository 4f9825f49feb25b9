"""Do keys rotate, and revocations reach a board, on a live fleet, from the command to the board's own updater?

One fleet, one publisher and one board for all: each drill leaves them working, and the next one shows it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from shoal_fleet.command.errors import CommandError
from shoal_wire import envelope
from shoal_wire.update import UpdateState

from tests.faults.updater.publisher import MODEL
from tests.system.fleet.drill_site import Board, Person
from tests.system.fleet.fleet_site import Fleet, message_of, run_cli, run_fleet
from tests.unit.fleet.command.material import make_certificate, make_fleet_keys


class Drill:
    """Fleet, publisher and board. Versions count up."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.publisher = Person(fleet, folder / "publisher")
        assert self.publisher.keys("init").code == 0
        self.version = 0
        self.release()
        self.board = Board(fleet, "board", folder=folder / "boards")

    def release(self) -> int:
        self.version += 1
        assert self.publisher.release(self.version).json["is_new"]
        return self.version

    def install(self) -> int:
        """A new release comes to the board."""
        before, version = self.board.versions()[0], self.release()
        self.board.roll_out(version)
        self.board.update()
        assert self.board.code == 0, self.board.error
        assert self.board.journal().state is UpdateState.COMMITTED, self.board.journal().reason
        assert self.board.versions() == (version, before)
        return version

    def read(self, name: str) -> int:
        return self.fleet.http.get(f"/api/v1/trust/metadata/{name}").status_code


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    folder = tmp_path_factory.mktemp("drills")
    with run_fleet(folder) as fleet:
        drill = Drill(fleet, folder)
        drill.install()
        yield drill


def test_root_keys_are_rotated(drill: Drill) -> None:
    token = drill.fleet.make_token("late")
    before = drill.publisher.key_ids("root")
    number = drill.board.report().root

    assert drill.publisher.keys("rotate", "--root").code == 0

    assert set(drill.publisher.key_ids("root")).isdisjoint(before)
    assert [drill.read(f"{version}.root.json") for version in (number, number + 1, number + 2)] == [200, 200, 404]
    drill.install()
    assert drill.board.report().root == number + 1
    # A token that was made before names the root of then.
    assert Board(drill.fleet, "late", folder=drill.board.state.parent, token=token).update(refresh=True)
    assert Board(drill.fleet, "new", folder=drill.board.state.parent).update(refresh=True)


def test_release_keys_are_rotated(drill: Drill) -> None:
    before = drill.publisher.key_ids("targets")
    assert drill.publisher.keys("rotate", "--release").code == 0
    assert set(drill.publisher.key_ids("targets")).isdisjoint(before)
    drill.install()


def test_thief_of_a_release_key_loses_it_and_what_was_released_with_it(drill: Drill, tmp_path: Path) -> None:
    thief = rob(drill, tmp_path)
    drill.version += 1
    evil = drill.version
    assert thief.release(evil).json["is_new"]
    drill.board.roll_out(evil)
    (stolen,) = drill.publisher.key_ids("targets")
    assert drill.publisher.keys("refresh", "--all").code == 0  # what is listed is signed along

    revoked = drill.publisher.keys("revoke", stolen[:12]).json

    assert revoked["unlisted"] == [f"{MODEL}/{evil}/manifest.json"]
    before = drill.board.versions()
    drill.board.update()
    assert drill.board.journal().state is UpdateState.REFUSED
    assert "not signed by the release key" in drill.board.journal().reason
    assert drill.board.versions() == before
    refused = drill.fleet.http.post(
        "/api/v1/rollouts", json={"release": MODEL, "version": evil, "devices": [drill.board.name]}
    )
    assert "was revoked by the publisher" in message_of(refused)
    again = thief.release(evil + 1000)
    assert (again.code, "counts for it (any more)" in again.err) == (2, True), again
    drill.install()
    assert evil not in drill.board.versions()


def test_keys_with_which_the_fleet_signs_are_rotated_while_it_runs(drill: Drill) -> None:
    assert drill.publisher.keys("rotate", "--fleet").code == 2
    made = run_cli(drill.fleet.program.state, "keys", "rotate")
    assert made.returncode == 0, made.stderr
    before = drill.fleet.get("/api/v1/fleet-keys")
    order = drill.board.journal().generation

    assert drill.publisher.keys("rotate", "--fleet").code == 0

    after = drill.fleet.get("/api/v1/fleet-keys")
    assert {name for name in before if before[name] != after[name]} == {"snapshot", "timestamp", "assignment"}
    assert drill.fleet.get("/api/v1/trust/next-keys") == {"snapshot": None, "timestamp": None, "assignment": None}
    new = envelope.key_id(envelope.parse_public_key(after["assignment"], what="key"))
    # What the board was told before is signed anew, by itself.
    drill.board.hear(until=lambda raw: envelope.signing_key_ids(raw, what="desired") == (new,))
    drill.board.update()
    assert (drill.board.code, drill.board.journal().generation) == (0, order)
    drill.install()


def test_thief_of_a_release_key_loses_whom_they_named_with_it(drill: Drill, tmp_path: Path) -> None:
    thief, board = rob(drill, tmp_path), drill.board
    real = x509.load_pem_x509_certificate(drill.fleet.program.authority.read_bytes())
    evil = make_certificate("the thief's")
    made = run_cli(drill.fleet.program.state, "keys", "rotate")
    assert made.returncode == 0, made.stderr
    own, coming = (drill.fleet.get(f"/api/v1/{path}")["assignment"] for path in ("fleet-keys", "trust/next-keys"))

    with pytest.raises(CommandError, match="expected this fleet's assignment keys alone"):
        thief.sign_lists(keys=[own, make_fleet_keys().assignment])
    with pytest.raises(CommandError, match=r"expected the authority .*, by which this fleet's servers have"):
        thief.sign_lists(authorities=[evil])
    thief.sign_lists(keys=[own, coming], authorities=[real, evil])
    board.update(refresh=True)
    assert (len(board.assignment_keys()), board.authorities()) == (2, {real, evil})
    assert drill.publisher.keys("refresh", "--all").code == 0  # what is listed is signed along

    (stolen,) = drill.publisher.key_ids("targets")
    refused = drill.publisher.keys("revoke", stolen)
    assert (refused.code, "weren't named from this folder" in refused.err) == (2, True), refused
    assert drill.publisher.keys("authorities", real.fingerprint(hashes.SHA256()).hex()).code == 0
    thief.sign_lists(authorities=[evil, real])
    assert drill.publisher.keys("revoke", stolen).json["unlisted"] == []

    board.update(refresh=True)
    assert board.code == 0, board.error
    assert (board.assignment_keys(), board.authorities()) == ((own,), {real})
    with pytest.raises(CommandError, match="counts for it"):
        thief.sign_lists(authorities=[real, evil])
    drill.install()


def test_floor_revokes_what_lies_below(drill: Drill) -> None:
    old = drill.board.versions()[0]
    floor = drill.release()

    raised = drill.publisher.keys("floor", MODEL, str(floor)).json

    assert f"{MODEL}/{old}/manifest.json" in raised["unlisted"]
    assert drill.publisher.keys("floor", MODEL, str(floor)).code == 2
    refused = drill.fleet.http.post(
        "/api/v1/rollouts", json={"release": MODEL, "version": old, "devices": [drill.board.name]}
    )
    assert f"raised the floor of the model {MODEL} to {floor}" in message_of(refused)
    daemon = drill.board.update(refresh=True)
    assert sorted(str(name) for name, _ in daemon.events()) == ["previous-revoked", "release-revoked"]
    assert drill.board.versions() == (old, None)
    assert drill.board.report().revoked == (MODEL,)
    drill.board.roll_out(floor)
    daemon = drill.board.update()
    assert drill.board.versions() == (floor, None)
    assert drill.board.report().revoked == (MODEL,)
    drill.board.update(refresh=True)
    assert drill.board.report().revoked == ()


def test_one_release_is_revoked(drill: Drill) -> None:
    bad = drill.release()
    drill.board.roll_out(bad)
    before = drill.board.versions()
    publisher = ("--publisher", str(drill.publisher.folder))

    assert drill.publisher.shoal("release", "revoke", MODEL, str(bad), *publisher).code == 0

    drill.board.update()
    assert drill.board.journal().state is UpdateState.REFUSED
    assert drill.board.versions() == before
    refused = drill.fleet.http.post(
        "/api/v1/rollouts", json={"release": MODEL, "version": bad, "devices": [drill.board.name]}
    )
    assert "was revoked by the publisher" in message_of(refused)
    assert drill.publisher.shoal("release", "revoke", MODEL, str(bad), *publisher).code == 2
    drill.install()


def test_everything_is_signed_anew(drill: Drill) -> None:
    before = drill.fleet.get("/api/v1/trust")
    assert drill.publisher.keys("refresh", "--all").code == 0
    after = drill.fleet.get("/api/v1/trust")
    assert after["ending"] == []
    for role, version in before["versions"].items():
        assert after["versions"][role] == version + 1, role
    drill.install()


def test_two_of_two_people_sign(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        anna, ben = Person(fleet, tmp_path / "anna"), Person(fleet, tmp_path / "ben")
        for role in ("root", "release"):
            make_key_pair(ben.folder / f"{role}-ben.pem", public=anna.folder / f"{role}-ben.pem")
        options = []
        for role in ("root", "release"):
            options += [f"--{role}-key", f"file:{role}-anna.pem", f"--{role}-key", f"file:{role}-ben.pem"]
            options += [f"--{role}-threshold", "2"]
        begun = anna.keys("init", *options)
        waits = begun.json["waits"]
        assert fleet.get("/api/v1/trust")["root"] is None
        assert anna.keys("publish", waits).code == 2
        shutil.copy(anna.folder / "publisher.json", ben.folder / "publisher.json")
        assert ben.keys("sign", waits).json["lacking"] == []
        assert anna.keys("publish", waits).code == 0

        created = anna.release(1).json
        assert fleet.get("/api/v1/releases") == []
        lacking = anna.keys("sign", created["waits"]).json["lacking"]
        assert {(one["signed"], one["threshold"]) for one in lacking} == {(1, 2)}
        assert ben.keys("sign", created["waits"]).json["lacking"] == []
        assert ben.keys("publish", created["waits"]).code == 0
        assert [row["version"] for row in fleet.get("/api/v1/releases")] == [1]
        board = Board(fleet, "board", folder=tmp_path / "boards")
        board.roll_out(1)
        board.update()
        assert board.versions() == (1, None)


def rob(drill: Drill, folder: Path) -> Person:
    """Somebody with the publisher's release key, and a login that may release."""
    thief = Person(drill.fleet, folder / "thief")
    shutil.copytree(drill.publisher.folder, thief.folder)
    for path in thief.folder.glob("root*.pem"):
        path.unlink()
    return thief


def make_key_pair(private: Path, *, public: Path) -> None:
    """What a person makes with OpenSSL: a private key, and the public half to hand on."""
    key = ed25519.Ed25519PrivateKey.generate()
    for path in (private, public):
        path.parent.mkdir(parents=True, exist_ok=True)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
