"""What do fault tests of the updater start from?

One HTTPS server, one fork server and one published site with two releases for all; a board on which release 1 serves
for each test.
"""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import CertificateSigningRequestBuilder, Name
from shoal_fleet.pki.authority import Authority
from shoal_wire.update import UpdateState
from shoal_worker.channel import Channel

from tests.faults.updater.board import BoardFolder, Mirror, Site
from tests.faults.updater.publisher import DEVICE, Publisher, sealed_path, tamper
from tests.faults.updater.scripted_daemon import ScriptedDaemon

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def make_certificates() -> Callable[[Path], Path]:
    """Fill a folder with the ca.pem of a new authority, and certificate and key of `server` and `device`."""

    def make(folder: Path) -> Path:
        now = datetime.now(UTC)
        authority = Authority.create(folder, now=now)
        server = authority.issue_server(["127.0.0.1"], now=now)
        (folder / "server.crt").write_bytes(server.certificate_pem)
        (folder / "server.key").write_bytes(server.key_pem)
        key = ec.generate_private_key(ec.SECP256R1())
        csr = CertificateSigningRequestBuilder(Name([])).sign(key, SHA256())
        pem = csr.public_bytes(serialization.Encoding.PEM)
        (folder / "device.crt").write_bytes(authority.issue_client(pem, device_id=DEVICE, now=now))
        (folder / "device.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return folder

    return make


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory, make_certificates: Callable[[Path], Path]) -> Path:
    """Those of the fleet that the boards belong to."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def server_url(certificates: Path, served_folder: Path) -> Iterator[str]:
    """Where `served_folder` is served."""
    command = [sys.executable, "-m", "tests.faults.updater.fetch_server", str(served_folder)]
    files = [str(certificates / name) for name in ("server.crt", "server.key", "ca.pem")]
    with subprocess.Popen([*command, *files], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"https://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "tests.faults.updater.fork_server", str(theirs.fileno())]
    with subprocess.Popen(command, cwd=ROOT, pass_fds=(theirs.fileno(),)):
        theirs.close()
        channel = Channel(ours)
        yield channel
        channel.close()


@pytest.fixture(scope="session")
def make_site(served_folder: Path, server_url: str) -> Callable[[str], Site]:
    """A site of its own, for tests that change what is served."""

    def make(name: str) -> Site:
        publisher = Publisher(served_folder / name)
        first = publisher.release(1, weights=b"first weights" * 300)
        second = publisher.release(2, weights=b"second weights" * 300)
        publisher.publish()
        return Site(publisher, f"{server_url}/{name}", first, second)

    return make


@pytest.fixture(scope="session")
def site(make_site: Callable[[str], Site]) -> Site:
    """The site that no test changes."""
    return make_site("common")


@pytest.fixture(scope="session")
def damaged_mirror(site: Site, served_folder: Path, server_url: str) -> str:
    """A copy of the common site in which one bit of release 2's model is another."""
    mirror = shutil.copytree(site.publisher.folder, served_folder / "damaged-mirror")
    tamper(mirror / sealed_path(site.second.manifest.file("model").ciphertext_sha256), at=2000)
    return f"{server_url}/{mirror.name}"


@pytest.fixture
def mirror(site: Site, served_folder: Path, server_url: str, tmp_path: Path) -> Mirror:
    """A copy of the common site for one test to change."""
    folder = shutil.copytree(site.publisher.folder, served_folder / tmp_path.name)
    return Mirror(folder, f"{server_url}/{folder.name}")


@pytest.fixture(scope="session")
def make_board(fork_server: Channel, certificates: Path) -> Callable[[Path, Site], BoardFolder]:
    """A board that has just been enrolled at a site."""

    def make(state: Path, site: Site) -> BoardFolder:
        board = BoardFolder(state, fork_server)
        board.enrol(site.publisher, url=site.url, certificates=certificates)
        return board

    return make


@pytest.fixture(scope="session")
def settled_state(
    tmp_path_factory: pytest.TempPathFactory, make_board: Callable[[Path, Site], BoardFolder], site: Site
) -> Path:
    """State of a board of the common site on which release 1 was committed as generation 1."""
    board = make_board(tmp_path_factory.mktemp("settled") / "state", site)
    board.desire(site.publisher.desire(site.publisher.assign(site.first), generation=1))
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 1)
    return board.state


@pytest.fixture
def fresh_board(settled_state: Path, tmp_path: Path, fork_server: Channel, site: Site) -> Callable[[], BoardFolder]:
    """A board on which release 1 serves and release 2 is desired as generation 2. A new call replaces the last one."""
    desired = site.publisher.desire(site.publisher.assign(site.second), generation=2)

    def make() -> BoardFolder:
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        shutil.copytree(settled_state, tmp_path / "state", symlinks=True)
        board = BoardFolder(tmp_path / "state", fork_server)
        board.desire(desired)
        return board

    return make


@pytest.fixture
def board(fresh_board: Callable[[], BoardFolder]) -> BoardFolder:
    """The one board of most tests."""
    return fresh_board()


@pytest.fixture
def own_site(make_site: Callable[[str], Site], tmp_path: Path) -> Site:
    """A site whose metadata this test may sign anew."""
    return make_site(tmp_path.name)


@pytest.fixture
def own_board(make_board: Callable[[Path, Site], BoardFolder], own_site: Site, tmp_path: Path) -> BoardFolder:
    """A board of that site on which release 1 serves and release 2 is desired."""
    board = make_board(tmp_path / "own", own_site)
    board.desire(own_site.publisher.desire(own_site.publisher.assign(own_site.first), generation=1))
    board.settle(ScriptedDaemon(board.state))
    board.desire(own_site.publisher.desire(own_site.publisher.assign(own_site.second), generation=2))
    return board
