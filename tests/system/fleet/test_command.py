"""Does the installed `shoal` do what an operator and a publisher ask of it, and end with the right exit code?"""

import json
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.sealing import make_manifest, read_draft, seal
from shoal_fleet.database import make_sessions, open_engine
from shoal_fleet.state import StatePaths
from shoal_fleet.telemetry.service import commit_batch
from shoal_wire.encoding import encode
from shoal_wire.messages import Batch, Row

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.fleet_site import DEADLINE_S, Fleet, FleetProgram, run_cli, run_fleet
from tests.system.fleet.operator_site import PASSPHRASE, SHOAL, Operator
from tests.unit.fleet.command.material import make_certificate, pem
from tests.unit.fleet.telemetry.rows import telemetry, tuned


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def operator(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """One who has logged in and made keys."""
    operator = Operator(fleet, tmp_path_factory.mktemp("operator"))
    assert operator.log_in().code == 0
    assert operator.keys_init().json == {"publisher": str(operator.publisher), "fleet": operator.url}
    return operator


@pytest.fixture
def stranger(fleet: Fleet, tmp_path: Path) -> Operator:
    """One who hasn't logged in."""
    return Operator(fleet, tmp_path / "stranger")


def test_login_is_kept_for_its_owner(stranger: Operator) -> None:
    path = stranger.home / "login.json"
    path.write_text("old")
    path.chmod(0o644)
    ran = stranger.log_in()
    assert (ran.code, ran.out) == (0, f"logged in to {stranger.url}; kept in {path}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["token"] == stranger.fleet.token


def test_login_without_trust_or_token_keeps_nothing(stranger: Operator) -> None:
    fingerprint = ("--authority-sha256", stranger.fingerprint)
    token = ("--token-file", "-")
    stranger.shoal("login", stranger.url, *token, stdin="x").refused(2, f"fingerprint is {stranger.fingerprint}")
    stranger.shoal("login", stranger.url, "--authority-sha256", "ab" * 32, *token, stdin="x").refused(
        1, "another server"
    )
    stranger.shoal("login", stranger.url, *fingerprint).refused(2, "--token-file")
    stranger.shoal("login", stranger.url, *fingerprint, *token).refused(2, "expected an API token")
    stranger.shoal("login", stranger.url, *fingerprint, *token, stdin="shoal_wrong").refused(
        1, "not known to this fleet"
    )
    stranger.shoal("login", stranger.url, *fingerprint, "--token-file", "/none").refused(2, "No such file")
    assert not (stranger.home / "login.json").exists()


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        ("http://127.0.0.1:1", 2, "https://"),
        ("fleet", 2, "https://"),
        ("https://me:secret@127.0.0.1:1", 2, "https://"),
        ("https://127.0.0.1:port", 2, "port"),
        ("https://127.0.0.1:1", 3, "no answer"),
    ],
)
def test_login_at_a_wrong_address(stranger: Operator, url: str, code: int, reason: str) -> None:
    stranger.shoal("login", url, "--authority-sha256", "ab" * 32).refused(code, reason)


def test_upper_case_fingerprint_with_colons_will_do(stranger: Operator) -> None:
    pairs = ":".join(stranger.fingerprint[at : at + 2] for at in range(0, 64, 2)).upper()
    ran = stranger.shoal(
        "login", stranger.url, "--authority-sha256", pairs, "--token-file", "-", stdin=stranger.fleet.token
    )
    assert ran.code == 0


def test_token_that_was_revoked_or_may_only_read(stranger: Operator) -> None:
    state = stranger.fleet.program.state
    token = run_cli(state, "token", "add", "guest", "--role", "viewer").stdout.strip()
    assert stranger.log_in(token=token).code == 0
    assert stranger.shoal("device", "list").code == 0
    stranger.shoal("device", "token", "--name", "x").refused(1, "expected the role operator, found viewer of *")
    assert run_cli(state, "token", "revoke", "guest").returncode == 0
    stranger.shoal("device", "list").refused(1, "revoked; log in with a token that counts: `shoal login URL`")


def test_server_of_another_authority_is_not_asked(stranger: Operator, operator: Operator) -> None:
    login = json.loads((operator.home / "login.json").read_text())
    login["authority"] = pem(make_certificate("other")).decode()
    (stranger.home / "login.json").write_text(json.dumps(login))
    stranger.shoal("device", "list").refused(1, "not the server that was logged in to")


def test_keys_can_be_made_again_and_are_encrypted(operator: Operator) -> None:
    before = {path: path.read_bytes() for path in operator.publisher.rglob("*.pem")}
    assert operator.keys_init().code == 0
    assert {path: path.read_bytes() for path in operator.publisher.rglob("*.pem")} == before
    assert all(content.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY") for content in before.values())


def test_second_publisher_gets_no_keys(operator: Operator, tmp_path: Path) -> None:
    other = tmp_path / "other"
    operator.shoal("keys", "init", "--publisher", str(other)).refused(2, "has a publisher already")
    assert not other.exists()


def test_passphrase_is_asked_for_by_what_is_wrong(operator: Operator) -> None:
    folder = operator.folder("locked", 1, model=b"m")
    create = ("release", "create", str(folder), "--publisher", str(operator.publisher))
    operator.shoal(*create).refused(2, "is encrypted: give --passphrase-file")
    operator.shoal(*create, "--passphrase-file", "-", stdin="wrong").refused(2, "the passphrase is another")
    assert operator.shoal("release", "show", "locked", "1").code == 4


def test_release_is_created_once_and_shown(operator: Operator) -> None:
    folder = operator.folder("once", 1, model=b"weights" * 9000, golden=b"sound", same=b"sound")
    made = operator.create(folder).json
    assert (made["name"], made["version"], made["is_new"]) == ("once", 1, True)
    assert made["uploaded_bytes"] == 32 + 63000 + 16 + 32 + 5 + 16  # header, plaintext and tag, of two distinct files
    again = operator.create(folder).json
    assert (again["is_new"], again["uploaded_bytes"]) == (False, 0)
    assert again["manifest_sha256"] == made["manifest_sha256"]

    listed = operator.shoal("release", "list", "--json").json
    assert made["manifest_sha256"] in [row["manifest_sha256"] for row in listed]
    shown = operator.shoal("release", "show", "once", "1", "--json").json
    assert [file["name"] for file in shown["manifest"]["files"]] == ["model", "golden", "same"]
    text = operator.shoal("release", "show", "once", "1").out
    assert "once 1" in text
    assert made["manifest_sha256"] in text
    operator.shoal("release", "show", "once", "9").refused(4, "once 9")
    operator.shoal("release", "show", "../devices", "9").refused(4, "")


def test_other_content_under_the_same_version_is_refused_before_anything_is_sent(operator: Operator) -> None:
    assert operator.create(operator.folder("twice", 1, model=b"one")).code == 0
    before = sorted((operator.fleet.program.state / "sealed").rglob("*"))
    operator.create(operator.folder("twice", 1, model=b"two")).refused(1, "raise its version")
    assert sorted((operator.fleet.program.state / "sealed").rglob("*")) == before


def test_file_of_an_earlier_release_is_not_sent_again(operator: Operator) -> None:
    assert operator.create(operator.folder("delta", 1, model=b"weights" * 100)).json["uploaded_bytes"] > 700
    assert operator.create(operator.folder("delta", 2, model=b"weights" * 100)).json["uploaded_bytes"] == 0


def test_create_that_was_interrupted_after_the_upload_is_finished(operator: Operator) -> None:
    folder = operator.folder("cut", 1, model=b"uploaded")
    publisher, draft = Publisher(operator.publisher, passphrase=PASSPHRASE.encode()), read_draft(folder)
    sealed = make_manifest(folder, draft, publisher).files[0]
    content = b"".join(seal(folder, draft.files[0], publisher, expected=sealed))
    assert operator.fleet.http.put(f"/api/v1/sealed/{sealed.ciphertext_sha256}", content=content).status_code == 201
    made = operator.create(folder).json
    assert (made["is_new"], made["uploaded_bytes"]) == (True, 0)


def test_create_whose_answer_was_lost_is_a_success_when_run_again(operator: Operator) -> None:
    folder = operator.folder("lost", 1, model=b"m")
    before = set((operator.publisher / "signed").iterdir())
    made = operator.create(folder).json
    (record,) = set((operator.publisher / "signed").iterdir()) - before
    record.unlink()
    again = operator.create(folder).json
    assert (again["is_new"], again["manifest_sha256"]) == (False, made["manifest_sha256"])
    assert operator.create(operator.folder("lost", 2, model=b"m")).json["is_new"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "release.json is not there"), ("", "release.json"), ("{", "release.json"), ("[]", "release.json")],
)
def test_folder_that_is_no_release_is_refused(
    operator: Operator, tmp_path: Path, text: str | None, reason: str
) -> None:
    if text is not None:
        (tmp_path / "release.json").write_text(text)
    operator.create(tmp_path).refused(2, reason)


def test_draft_that_names_files_elsewhere_or_none_is_refused(operator: Operator) -> None:
    folder = operator.folder("bad", 1, model=b"m")
    draft = json.loads((folder / "release.json").read_text())
    for path, reason in (("/etc/hostname", "lies outside the folder"), ("absent", "can't be read")):
        draft["files"][0]["path"] = path
        (folder / "release.json").write_text(json.dumps(draft))
        operator.create(folder).refused(2, reason)


def test_board_comes_in_with_a_token_is_shown_and_shut_out(operator: Operator, tmp_path: Path) -> None:
    ran = operator.shoal("device", "token", "--name", "guarded", "--valid-for", "60")
    assert ran.out.startswith("shoal1.")
    assert "good for one board until" in ran.err
    made = operator.shoal("device", "token", "--name", "other", "--json").json
    assert sorted(made) == ["expires_at", "token"]
    operator.shoal("device", "token", "--name", "no/name").refused(1, "body.name")
    operator.shoal("device", "token", "--name", "yard", "--boot-file", str(tmp_path))
    boot = tomllib.loads((tmp_path / "shoal-enrol.toml").read_text())
    assert boot["token"].startswith("shoal1.") and boot["name"] == "yard"
    device = operator.fleet.enrol("guarded").answer.device

    rows = operator.shoal("device", "list", "--json").json
    assert ("guarded", None) in [(row["name"], row["revoked_at"]) for row in rows]
    assert device in operator.shoal("device", "list").out
    shown = operator.shoal("device", "show", "guarded")
    assert device in shown.out
    assert "offline" in shown.out
    operator.shoal("device", "show", "nobody").refused(4, "nobody")

    operator.shoal("device", "revoke", "guarded").refused(2, f"guarded ({device}) would be shut out for good")
    assert operator.shoal("device", "show", device, "--json").json["revoked_at"] is None
    assert operator.shoal("device", "revoke", "guarded", "--yes").out == f"guarded ({device}) is revoked\n"
    assert operator.shoal("device", "show", device, "--json").json["revoked_at"] is not None


def test_what_boards_found_out_is_listed(operator: Operator) -> None:
    ran = operator.shoal("tuning", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "no verdict yet: boards tune after an install" in ran.err
    devices = [operator.fleet.enrol(name).answer.device for name in ("tuned-1", "tuned-2")]
    store_rows(operator.fleet, devices, rows=[tuned(), telemetry(10.0, deaths=2)])

    heading, line = operator.shoal("tuning", "list", "--model", "note-events").out.splitlines()
    assert heading.split() == ["MODEL", "BOARD", "FOR", "CHOICE", "P50", "MS", "BOARDS", "STATE"]
    assert line.split()[0] == "note-events"
    assert "Raspberry Pi 5, Cortex-A76 (aarch64), 4 threads" in line
    assert "int8 litert exact threads=2" in line
    assert line.split()[-3:] == ["18.25", "2", "settled"]
    shown = operator.shoal("tuning", "list", "--json").json
    assert [verdict["device"] for verdict in shown] == devices
    assert operator.shoal("tuning", "list", "--model", "birds").out == ""
    assert "2 in the last 24 h" in operator.shoal("device", "show", "tuned-1").out


def store_rows(fleet: Fleet, devices: list[str], *, rows: list[Row]) -> None:
    """As if each device had sent them."""
    engine = open_engine(StatePaths(fleet.program.state).database)
    raw = tuple(msgspec.Raw(encode(row)) for row in rows)
    with make_sessions(engine)() as session:
        for device in devices:
            commit_batch(session, Batch(device=device, stream="0" * 32, first=1, rows=raw), now=time.time())
    engine.dispose()


def test_rollout_is_started_watched_shown_and_aborted(operator: Operator) -> None:
    operator.fleet.enrol("patient")
    assert operator.create(operator.folder("rolled", 1, model=b"m")).code == 0
    operator.shoal("rollout", "start", "rolled", "9", "--all").refused(4, "rolled 9")
    operator.shoal("rollout", "start", "rolled", "1", "--device", "nobody").refused(4, "nobody")
    started = operator.shoal("rollout", "start", "rolled", "1", "--device", "patient", "--json").json
    number = str(started["id"])
    assert (started["state"], [row["name"] for row in started["devices"]]) == ("running", ["patient"])

    watched = operator.shoal("rollout", "watch", number, "--timeout", "1")
    assert (watched.code, watched.out) == (1, "")
    assert watched.err.splitlines() == [
        "patient: assigned",
        f"shoal: rollout {number} hasn't ended after 1 s; it goes on",
    ]
    listed = operator.shoal("rollout", "list", "--json").json
    assert {"id": started["id"], "counts": {"assigned": 1}}.items() <= listed[0].items()
    assert "1 assigned" in operator.shoal("rollout", "list").out
    assert operator.shoal("rollout", "show", number).out.splitlines()[1:] == [
        "  started by token:first",
        "  patient: assigned",
    ]

    assert operator.shoal("rollout", "abort", number).out == f"rollout {number} is aborted\n"
    operator.shoal("rollout", "abort", number).refused(1, "has aborted already")
    operator.shoal("rollout", "show", "999999").refused(4, "999999")
    ended = operator.shoal("rollout", "watch", number, "--json")
    assert (ended.code, json.loads(ended.out)["state"]) == (1, "aborted")
    assert ended.err == f"shoal: rollout {number} has aborted\n"


def test_nothing_to_list_is_no_error(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        operator = Operator(fleet, tmp_path / "operator")
        assert operator.log_in().code == 0
        assert operator.shoal("device", "list", "--json").json == []
        for what in ("release", "rollout"):
            ran = operator.shoal(what, "list")
            assert (ran.code, ran.out) == (0, "")
            assert f"no {what}s yet: `shoal {what}" in ran.err
        operator.publisher.mkdir()
        operator.create(operator.folder("early", 1, model=b"m")).refused(2, "run `shoal keys init")


def test_reader_that_leaves_is_no_traceback(operator: Operator) -> None:
    operator.fleet.enrol("listed")
    for arguments in ("device list --json", "device list"):
        ran = subprocess.run(
            ["bash", "-c", f'"$0" {arguments} | true; exit "${{PIPESTATUS[0]}}"', SHOAL],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=operator.environment,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (141, "")


def test_watching_outlives_a_restart_of_the_fleet(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        operator = Operator(fleet, tmp_path / "operator")
        assert operator.log_in().code == 0
        assert operator.keys_init().code == 0
        assert operator.create(operator.folder("kept", 1, model=b"m")).code == 0
        fleet.enrol("patient")
        command = [SHOAL, "rollout", "start", "kept", "1", "--all", "--watch", "--json"]
        with (tmp_path / "watch.log").open("w") as log:
            watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=operator.environment)
        try:
            wait_until(lambda: "patient: assigned" in (tmp_path / "watch.log").read_text(), what="it watches")
            assert fleet.program.end() == 0
            operator.shoal("rollout", "list").refused(3, "no answer")
            assert watch.poll() is None
            restarted = FleetProgram(fleet.program.state)
            try:
                assert operator.shoal("rollout", "abort", "1").code == 0
                out, _ = watch.communicate(timeout=DEADLINE_S)
            finally:
                assert restarted.end() == 0
        finally:
            watch.kill()
            watch.wait()
        assert (watch.returncode, json.loads(out)["state"]) == (1, "aborted")


def test_fleet_that_came_back_from_an_old_copy_gets_nothing_signed(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        operator = Operator(fleet, tmp_path / "operator")
        assert operator.log_in().code == 0
        assert operator.keys_init().code == 0
        assert fleet.program.end() == 0
        copy = shutil.copytree(fleet.program.state, tmp_path / "copy")
        running = FleetProgram(fleet.program.state)
        assert operator.create(operator.folder("notes", 1, model=b"m")).code == 0
        assert running.end() == 0
        shutil.rmtree(fleet.program.state)
        shutil.copytree(copy, fleet.program.state)
        running = FleetProgram(fleet.program.state)
        try:
            operator.create(operator.folder("notes", 2, model=b"m")).refused(
                1, "restored from an old copy or taken over"
            )
        finally:
            assert running.end() == 0
