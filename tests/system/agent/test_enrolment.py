"""Does a board enrol with one token, whenever power goes, and with no fleet but the one that the token names?

The real command against an HTTPS server on loopback that gives the answers of a fleet.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_agent.enrolment import Label, enrol
from shoal_agent.errors import EnrolmentRefused, FleetUnreachable
from shoal_agent.files import DiskFiles
from shoal_agent.state import AUTHORITY, CERTIFICATE, DEVICE, TUF_ROOT
from shoal_fleet.pki.authority import Authority
from shoal_wire import envelope, paths
from shoal_wire.encoding import decode, encode
from shoal_wire.errors import Malformed
from shoal_wire.messages import EnrolmentRequest, EnrolmentResponse
from shoal_wire.token import EnrolmentToken, write_token

ADDRESS = "127.0.0.1"
ROOT = b'{"signed": "as far as a board can tell"}'
SECRET = "s" * 43
LABEL = Label("yard", "generic")


@dataclass
class FakeFleet:
    """Answers as a fleet does. `wrong` replaces fields of its answer, `status` its status."""

    authority: Authority
    url: str = ""
    status: int = 200
    wrong: dict[str, object] = field(default_factory=dict)
    offers: bytes = b""
    secrets: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    requests: int = 0

    def token(self, *, secret: str = SECRET, ca_sha256: str = "", root: bytes = ROOT) -> str:
        der = x509.load_pem_x509_certificate(self.authority.certificate_pem).public_bytes(Encoding.DER)
        return write_token(
            EnrolmentToken(
                url=self.url,
                secret=secret,
                ca_sha256=ca_sha256 or hashlib.sha256(der).hexdigest(),
                root_sha256=hashlib.sha256(root).hexdigest(),
            )
        )

    def answer(self, raw: bytes, secret: str) -> tuple[int, bytes]:
        self.requests += 1
        self.secrets.append(secret)
        if self.status != 200 or secret != SECRET:
            status = self.status if self.status != 200 else 403
            return status, json.dumps({"error": {"code": "refused", "message": "the token has ended"}}).encode()
        claimed = decode(base64.b64decode(json.loads(raw)["payload"]), EnrolmentRequest, what="request")
        key = envelope.parse_public_key(claimed.identity_key, what="key")
        envelope.verify(raw, envelope.ENROLMENT, [key], what="request")
        self.keys.add(claimed.identity_key)
        device = "d-" + hashlib.sha256(claimed.identity_key.encode()).hexdigest()[:16]
        certificate = self.authority.issue_client(claimed.csr.encode(), device_id=device, now=datetime.now(UTC))
        response = EnrolmentResponse(
            device=device,
            certificate=certificate.decode(),
            authority=self.authority.certificate_pem.decode(),
            root=base64.b64encode(ROOT).decode(),
            broker_host="broker.example",
            broker_port=8883,
            devices_url="https://fleet.example:8444",
        )
        return 200, json.dumps(json.loads(encode(response)) | self.wrong).encode()


def make_handler(fleet: FakeFleet) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == paths.AUTHORITY
            self.reply(200, fleet.offers or fleet.authority.certificate_pem)

        def do_POST(self) -> None:
            assert self.path == paths.ENROL
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(*fleet.answer(raw, self.headers["Authorization"].removeprefix("Bearer ")))

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def serving(folder: Path, authority: Authority, *, server_by: Authority | None = None) -> Iterator[FakeFleet]:
    """A fleet on a free port; `server_by` signs its own certificate."""
    fleet = FakeFleet(authority)
    identity = (server_by or authority).issue_server([ADDRESS], now=datetime.now(UTC))
    chain = folder / "server.pem"
    chain.write_bytes(identity.certificate_pem + identity.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    with http.server.ThreadingHTTPServer((ADDRESS, 0), make_handler(fleet)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        fleet.url = f"https://{ADDRESS}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield fleet
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FakeFleet]:
    with serving(tmp_path, Authority.create(tmp_path / "authority", now=datetime.now(UTC))) as made:
        yield made


def run(
    state: Path, token: str, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("shoal-agent")),
        "enrol",
        token,
        "--name",
        "yard",
        "--state",
        str(state),
        *options,
    ]
    environment = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def enrol_here(state: Path, token: str, *, files: DiskFiles | None = None) -> str:
    return enrol(files or DiskFiles(), state, token=token, label=LABEL, agent_version="0.1.0").device


def test_enrols_and_prints_no_secret(fleet: FakeFleet, tmp_path: Path) -> None:
    state = tmp_path / "state"
    done = run(state, fleet.token())
    assert done.returncode == 0, done.stderr
    device = json.loads((state / DEVICE).read_bytes())
    assert device["device"] in done.stdout
    assert f"profile {device['profile']}: " in done.stdout, "detected, with the reason"
    assert (device["name"], device["broker_host"], device["broker_port"]) == ("yard", "broker.example", 8883)
    assert (state / TUF_ROOT).read_bytes() == ROOT
    assert (state / AUTHORITY).read_bytes() == fleet.authority.certificate_pem
    for path in sorted((state / "keys").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        body = path.read_text().splitlines()[1]
        assert body not in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert not [path for path in state.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("profile", "options", "has_hybrid"),
    [
        ("careful", [], True),
        ("careful", ["--grants", "x25519"], False),
        ("plain", [], False),
        ("plain", ["--grants", "mlkem768-x25519"], True),
        ("unknown", [], False),
    ],
    ids=["profile", "option against it", "plain profile", "option", "no such profile"],
)
def test_grants_are_as_the_profile_says_unless_an_option_does(
    fleet: FakeFleet, tmp_path: Path, profile: str, options: list[str], has_hybrid: bool
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    plain = 'board = "a"\narchitecture = "x86_64"\nengines = ["onnxruntime"]\nciphers = ["aes-256-gcm"]\n'
    (folder / "plain.toml").write_text(f'name = "plain"\n{plain}')
    (folder / "careful.toml").write_text(f'name = "careful"\ngrants = "mlkem768-x25519"\n{plain}')
    state, environment = tmp_path / "state", {"SHOAL_PROFILES": str(folder)}
    done = run(state, fleet.token(), "--profile", profile, *options, environment=environment)
    assert done.returncode == 0, done.stderr
    assert (state / "keys" / "hpke-hybrid.key").exists() == has_hybrid


def test_enrolling_again_with_the_same_token_gives_the_same_device(fleet: FakeFleet, tmp_path: Path) -> None:
    first = enrol_here(tmp_path / "state", fleet.token())
    assert enrol_here(tmp_path / "state", fleet.token()) == first
    assert fleet.requests == 1


class PowerCut(Exception):
    pass


class FailingFiles(DiskFiles):
    """A disk whose power goes right before, or right after, a given write."""

    def __init__(self, *, write: int, is_before: bool) -> None:
        self.left = write
        self.is_before = is_before

    def write(self, path: Path, data: bytes) -> None:
        self.left -= 1
        if self.left == 0 and self.is_before:
            raise PowerCut
        super().write(path, data)
        if self.left == 0:
            raise PowerCut


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("write", range(1, 8))
def test_power_may_go_at_any_write(fleet: FakeFleet, tmp_path: Path, write: int, is_before: bool) -> None:
    state = tmp_path / "state"
    with pytest.raises(PowerCut):
        enrol_here(state, fleet.token(), files=FailingFiles(write=write, is_before=is_before))
    is_whole = (state / DEVICE).exists()
    assert is_whole == (write == 7 and not is_before)
    device = enrol_here(state, fleet.token())
    assert json.loads((state / DEVICE).read_bytes())["device"] == device
    certificate = x509.load_pem_x509_certificate((state / CERTIFICATE).read_bytes())
    assert certificate.subject.rfc4514_string() == f"CN={device}"
    assert len(fleet.keys) == 1


def test_another_token_does_not_make_another_device_of_the_same_folder(fleet: FakeFleet, tmp_path: Path) -> None:
    device = enrol_here(tmp_path / "state", fleet.token())
    done = run(tmp_path / "state", fleet.token(secret="t" * 43))
    assert done.returncode == 1
    assert device in done.stderr and "empty state folder" in done.stderr


@pytest.mark.parametrize("token", ["", "no token", "shoal1.", "shoal1.abc", "shoal1.e30"])
def test_refuses_what_is_no_token(tmp_path: Path, token: str) -> None:
    with pytest.raises(Malformed, match="token"):
        enrol_here(tmp_path / "state", token)


def test_refuses_an_authority_that_the_token_does_not_name(fleet: FakeFleet, tmp_path: Path) -> None:
    done = run(tmp_path / "state", fleet.token(ca_sha256="0" * 64))
    assert done.returncode == 1
    assert "authority digest" in done.stderr and "0" * 64 in done.stderr
    assert fleet.secrets == []
    assert not (tmp_path / "state" / DEVICE).exists()


def test_gives_its_secret_to_no_server_of_another_authority(tmp_path: Path) -> None:
    ours = Authority.create(tmp_path / "ours", now=datetime.now(UTC))
    theirs = Authority.create(tmp_path / "theirs", now=datetime.now(UTC))
    with serving(tmp_path, ours, server_by=theirs) as fleet:
        with pytest.raises(EnrolmentRefused, match="authority that the token names"):
            enrol_here(tmp_path / "state", fleet.token())
        assert fleet.secrets == []


def test_says_why_the_fleet_refuses(fleet: FakeFleet, tmp_path: Path) -> None:
    done = run(tmp_path / "state", fleet.token(secret="t" * 43))
    assert done.returncode == 1
    assert "403 the token has ended" in done.stderr


def test_a_fleet_that_is_busy_or_away_is_to_be_tried_again(fleet: FakeFleet, tmp_path: Path) -> None:
    fleet.status = 503
    assert run(tmp_path / "state", fleet.token()).returncode == 75
    fleet.url = f"https://{ADDRESS}:1"
    with pytest.raises(FleetUnreachable, match=f"{ADDRESS}:1"):
        enrol_here(tmp_path / "state", fleet.token())


def test_refuses_a_root_that_the_token_does_not_name(fleet: FakeFleet, tmp_path: Path) -> None:
    with pytest.raises(EnrolmentRefused, match="TUF root digest"):
        enrol_here(tmp_path / "state", fleet.token(root=b"another"))
    assert not (tmp_path / "state" / TUF_ROOT).exists()


def foreign_certificate(folder: Path) -> str:
    return Authority.create(folder / "foreign", now=datetime.now(UTC)).certificate_pem.decode()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("device", "d-another", "certificate's name"),
        ("certificate", "foreign", "certificate's key"),
        ("certificate", "no certificate", "no readable root or certificate"),
        ("authority", "foreign", "authority digest"),
        ("root", "???", "root"),
        ("broker_port", "8883", "broker_port"),
        ("broker_port", 0, "broker_port"),
        ("device", "../etc", "device"),
        ("protocol", 0, "protocol"),
    ],
)
def test_refuses_a_wrong_answer_and_keeps_none_of_it(
    fleet: FakeFleet, tmp_path: Path, name: str, value: object, message: str
) -> None:
    fleet.wrong = {name: foreign_certificate(tmp_path) if value == "foreign" else value}
    with pytest.raises(EnrolmentRefused, match=message):
        enrol_here(tmp_path / "state", fleet.token())
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["keys"]
