"""How does a test get a board that is enrolled, and its daemon with programs that a test chose?"""

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_agent.files import DiskFiles
from shoal_agent.keys import DeviceKeys, make_missing_keys
from shoal_agent.state import AUTHORITY, CERTIFICATE, DEVICE, Device
from shoal_wire.encoding import encode
from shoal_wire.grant import GrantContext, make_grant
from shoal_wire.messages import Assignment

from tests.system.agent.fake_fleet import FakeFleet
from tests.system.fleet.broker_site import ADDRESS, Site

HERE = Path(__file__).parent
DEVICE_ID = "d-board"
MODEL = "note-events"
TELEMETRY = "[telemetry]\ninterval_s = 1.0\nidle_interval_s = 5.0\n"


@dataclass
class Board:
    """A board's state folder and its fleet."""

    state: Path
    items: Path
    keys: DeviceKeys
    site: Site
    fleet: FakeFleet

    def add_items(self, count: int, *, prefix: str = "item") -> set[str]:
        """Put work into the source's folder; returns the names."""
        names = {f"{prefix}-{number:03d}.wav" for number in range(count)}
        for name in sorted(names):
            (self.items / name).write_bytes(b"sound")
        return names

    def assignment(self, version: int, *, device: str = DEVICE_ID) -> Assignment:
        """A release with one file, whose grant is made for `device`."""
        digest = hashlib.sha256(b"sealed").hexdigest()
        context = GrantContext(MODEL, version, device)
        public = self.keys.hpke.public_key()
        return Assignment(
            release=MODEL,
            version=version,
            manifest_sha256=hashlib.sha256(b"manifest %d" % version).hexdigest(),
            grants=(make_grant(bytes(32), public, context=context, ciphertext_sha256=digest, counter=1),),
        )

    def trust_fleet(self) -> None:
        """What the fleet's metadata would say, for the fake updater to find."""
        (self.state / "offered-trust.json").write_bytes(self.fleet.keys)

    def configure(self, *, tunes: bool, more: str = "") -> None:
        """Write the configuration: one source, and whether the daemon tunes by itself."""
        source = f'kind = "folder"\nname = "folder"\npath = "{self.items}"\nrelease = "{MODEL}"\n'
        tuning = f"[tuning]\nat_install = {str(tunes).lower()}\n"
        (self.state / "agent.toml").write_text(f"{TELEMETRY}{tuning}{more}[[sources]]\n{source}")

    @contextlib.contextmanager
    def daemon(
        self, *, updater: str = "good", front: str = "good", tuning: str = "found"
    ) -> Iterator[subprocess.Popen[str]]:
        """The daemon with its fakes; ended at the end, and its log printed for a test that fails."""
        process = self.start(updater=updater, front=front, tuning=tuning)
        try:
            yield process
        finally:
            process.terminate()
            try:
                _, log = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                _, log = process.communicate()
            print(log)

    def start(self, *, updater: str = "good", front: str = "good", tuning: str = "found") -> subprocess.Popen[str]:
        mark = str(self.state / "misbehaved")
        command = [
            sys.executable,
            str(HERE / "run_daemon.py"),
            str(self.state),
            json.dumps([sys.executable, str(HERE / "fake_updater.py"), "--behaviour", updater]),
            json.dumps([sys.executable, str(HERE / "fake_front.py"), "--behaviour", front, "--mark", mark]),
            json.dumps([sys.executable, str(HERE / "fake_tuning.py"), "--behaviour", tuning]),
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def enrolled_board(folder: Path, site: Site) -> Iterator[Board]:
    """A board as enrolment leaves it, with a folder source, and a fleet that listens."""
    state, items, files = folder / "state", folder / "items", DiskFiles()
    items.mkdir()
    keys = make_missing_keys(files, state)
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(keys.tls, hashes.SHA256())
    pem = site.authority.issue_client(csr.public_bytes(Encoding.PEM), device_id=DEVICE_ID, now=site.now)
    files.write(state / AUTHORITY, site.authority.certificate_pem)
    files.write(state / CERTIFICATE, pem)
    device = Device(
        device=DEVICE_ID,
        name="board",
        profile="generic",
        broker_host=ADDRESS,
        broker_port=site.port,
        devices_url=f"https://{ADDRESS}",
        token_sha256="0" * 64,
    )
    files.write(state / DEVICE, encode(device))
    fleet = FakeFleet(
        site.connect_fleet(),
        device=DEVICE_ID,
        identity=keys.identity.public_key(),
        key=ed25519.Ed25519PrivateKey.generate(),
    )
    board = Board(state=state, items=items, keys=keys, site=site, fleet=fleet)
    board.configure(tunes=False)
    try:
        yield board
    finally:
        board.fleet.close()
