"""Which server does a board take for its fleet's while its clock, or the server's certificate, is of another time?"""

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from shoal_agent.errors import WrongServer
from shoal_agent.fleet_https import Question, ask
from shoal_agent.fleet_tls import FleetContext, trusting
from shoal_agent.updater.errors import TryLater
from shoal_agent.updater.http_client import FleetHttp
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority, Identity

from tests.authority_line import AuthorityLine

DAY = timedelta(days=1)
NOW = datetime.now(UTC)


class Page(http.server.BaseHTTPRequestHandler):
    """Says yes to everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"yes")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(identity: Identity, folder: Path) -> Iterator[str]:
    """Where a TLS server with that certificate answers."""
    chain = folder / "server.pem"
    chain.write_bytes(identity.certificate_pem + identity.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get_once(url: str, context: FleetContext) -> bytes:
    return ask(url, Question("GET", "/"), context=context, limit_bytes=10)


def get_as_updater(url: str, context: FleetContext) -> bytes:
    client = FleetHttp(url, context=context)
    try:
        with client.get(f"{url}/") as answer:
            return b"".join(answer.pieces)
    finally:
        client.close()


CLIENTS = pytest.mark.parametrize("get", [get_once, get_as_updater], ids=["asks once", "updater"])
Get = Callable[[str, FleetContext], bytes]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Made long ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority.create(tmp_path / "authority", key=key, now=NOW - 3000 * DAY)


def certificate_of(authority: Authority | Authorities) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.certificate_pem)


def server_of(authority: Authority, *, days: int, valid_days: int = 398) -> Identity:
    """Made so many days from now; it begins thirty days before that."""
    return authority.issue_server(["127.0.0.1"], now=NOW + days * DAY, valid_days=valid_days)


@CLIENTS
@pytest.mark.parametrize("days_behind", [31, 200, 20_000])
def test_a_certificate_that_begins_later_than_the_clock_says_is_taken(
    get: Get, days_behind: int, authority: Authority, tmp_path: Path
) -> None:
    context = trusting([certificate_of(authority)], at=(NOW - days_behind * DAY).timestamp())
    with served(server_of(authority, days=0), tmp_path) as url:
        assert get(url, context) == b"yes"


@CLIENTS
def test_one_that_begins_later_than_this_machines_clock_says_is_taken(
    get: Get, authority: Authority, tmp_path: Path
) -> None:
    """The clock that OpenSSL reads, which no test sets back."""
    context = trusting([certificate_of(authority)], at=NOW.timestamp())
    with served(server_of(authority, days=100), tmp_path) as url:
        assert get(url, context) == b"yes"


@CLIENTS
def test_one_that_has_ended_by_then_is_refused(get: Get, authority: Authority, tmp_path: Path) -> None:
    ended = server_of(authority, days=-20, valid_days=10)
    with served(ended, tmp_path) as url:
        with pytest.raises((WrongServer, TryLater), match="certificate has expired: it ended at"):
            get(url, trusting([certificate_of(authority)], at=(NOW - 9 * DAY).timestamp()))
        for at in ((NOW - 11 * DAY).timestamp(), 0.0):
            assert get(url, trusting([certificate_of(authority)], at=at)) == b"yes"


@CLIENTS
@pytest.mark.parametrize("at", [0.0, NOW.timestamp()], ids=["no time", "now"])
def test_one_by_another_authority_is_refused_whatever_the_time(
    get: Get, at: float, authority: Authority, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", key=ec.generate_private_key(ec.SECP256R1()), now=NOW)
    refused = pytest.raises((WrongServer, TryLater), match=r"self-signed|unable to get")
    with served(server_of(other, days=0), tmp_path) as url, refused:
        get(url, trusting([certificate_of(authority)], at=at))
    elsewhere = authority.issue_server(["127.0.0.2"], now=NOW)
    with served(elsewhere, tmp_path) as url, pytest.raises((WrongServer, TryLater), match="IP address mismatch"):
        get(url, trusting([certificate_of(authority)], at=at))


@CLIENTS
def test_an_authority_that_has_ended_vouches_for_nobody(get: Get, authority: Authority, tmp_path: Path) -> None:
    ends_at = certificate_of(authority).not_valid_after_utc
    with served(server_of(authority, days=0), tmp_path) as url:
        assert get(url, trusting([certificate_of(authority)], at=NOW.timestamp())) == b"yes"
        with pytest.raises((WrongServer, TryLater), match="unable to get"):
            get(url, trusting([certificate_of(authority)], at=(ends_at + DAY).timestamp()))


def test_a_server_is_known_by_the_link_that_it_shows_and_judged_by_its_own_end(tmp_path: Path) -> None:
    line = AuthorityLine(tmp_path / "line", now=NOW - 100 * DAY)
    first = certificate_of(line.authorities)
    line.follow()
    second = certificate_of(line.authorities)
    made = line.authorities.issue_server(["127.0.0.1"], now=NOW - 20 * DAY, valid_days=10)
    with served(made, tmp_path) as url:
        for trusted in (first, second):
            assert get_once(url, trusting([trusted], at=(NOW - 11 * DAY).timestamp())) == b"yes"
            with pytest.raises(WrongServer, match="certificate has expired"):
                get_once(url, trusting([trusted], at=NOW.timestamp()))


def test_whether_a_server_is_vouched_for_by_others_is_found_out_before_they_count(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", key=ec.generate_private_key(ec.SECP256R1()), now=NOW)
    mine, theirs = certificate_of(authority), certificate_of(other)
    with served(server_of(authority, days=0), tmp_path) as url:
        client = FleetHttp(url, context=trusting([mine], at=NOW.timestamp()))
        answers = [client.is_vouched_for_by(set_) for set_ in ([mine], [theirs, mine], [theirs], [])]
        assert answers == [True, True, False, False]
        client.close()
    assert not client.is_vouched_for_by([mine])


def test_over_buffers_what_has_ended_is_refused_too(authority: Authority, tmp_path: Path) -> None:
    """As asyncio has it."""
    ended = server_of(authority, days=-20, valid_days=10)
    (tmp_path / "server.pem").write_bytes(ended.certificate_pem + ended.key_pem)
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(tmp_path / "server.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = trusting([certificate_of(authority)], at=NOW.timestamp())
    ends = [context.wrap_bio(down, up, server_hostname="127.0.0.1"), listening.wrap_bio(up, down, server_side=True)]
    with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
        for _ in range(4):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
