"""Does the doctor say how far a board gets, against a real broker and a real listener, without disturbing either?"""

import contextlib
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from shoal_agent.credentials import make_context
from shoal_agent.doctor.reaching import BROKER, LISTENER, Place, Step, ask_broker, ask_listener, reach, reach_fleet
from shoal_agent.files import DiskFiles
from shoal_agent.state import DEVICE, load_device
from shoal_fleet.pki.authority import Authority
from shoal_wire.encoding import encode
from shoal_wire.messages import Presence

from tests.system.agent.board import DEVICE_ID, Board
from tests.system.fleet.broker_site import ADDRESS, Site, wait_until

FILES = DiskFiles()
UNUSED_PORT = 1


@contextlib.contextmanager
def listener(site: Site, *, status: int) -> Iterator[int]:
    """One like the fleet's for devices, which answers every question with a status; its port."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    identity = site.authority.issue_server([ADDRESS], now=site.now)
    chain = site.folder / "listener.pem"
    chain.write_bytes(identity.certificate_pem + identity.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.load_verify_locations(cadata=site.authority.certificate_pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer((ADDRESS, 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def move_listener(board: Board, port: int) -> None:
    """Let the board believe that its fleet's listener is at that port."""
    device = load_device(FILES, board.state)
    moved = msgspec.structs.replace(device, devices_url=f"https://{ADDRESS}:{port}")
    (board.state / DEVICE).write_bytes(encode(moved))


def test_board_reaches_its_broker_and_listener(board: Board) -> None:
    with listener(board.site, status=404) as port:
        move_listener(board, port)
        broker, devices = reach_fleet(FILES, board.state, now=board.site.now.timestamp())
    assert (broker.failed, broker.told) == (None, "it speaks MQTT")
    assert (devices.failed, devices.told) == (None, "it answers 404")


def test_daemon_that_is_connected_stays_so(board: Board) -> None:
    site = board.site
    connected = site.connect(site.device(DEVICE_ID), client_id=DEVICE_ID)
    reach_fleet(FILES, board.state, now=site.now.timestamp())
    presence = encode(Presence(online=True, stream="0" * 32))
    assert connected.publish(f"shoal/v1/{DEVICE_ID}/up/presence", payload=presence) == "Success"
    assert not connected.disconnected.is_set()


def test_revoked_certificate_is_refused_at_the_last_step(board: Board) -> None:
    certificate = x509.load_pem_x509_certificate((board.state / "tls.crt").read_bytes())
    board.site.revoke(serials=[certificate.serial_number], names=[])
    context = make_context(FILES, board.state, at=board.site.now.timestamp())
    place = Place(BROKER, ADDRESS, board.site.port)
    wait_until(
        lambda: reach(place, context=context, ask=ask_broker).failed is Step.ANSWER, what="the broker knows the list"
    )


def test_listener_that_refuses_the_device_is_told_with_its_words(board: Board) -> None:
    context = make_context(FILES, board.state, at=board.site.now.timestamp())
    with listener(board.site, status=403) as port:
        found = reach(Place("", ADDRESS, port), context=context, ask=ask_listener)
    assert (found.failed, found.error) == (Step.ANSWER, "it answers 403 Forbidden")


def test_another_fleets_server_is_refused_before_anything_is_said(board: Board, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", now=board.site.now)
    (board.state / "authority.pem").write_bytes(other.certificate_pem)
    broker, _ = reach_fleet(FILES, board.state, now=board.site.now.timestamp())
    assert broker.failed is Step.TLS
    assert "certificate" in broker.error


def test_server_that_speaks_something_else_is_told(board: Board) -> None:
    context = make_context(FILES, board.state, at=board.site.now.timestamp())
    found = reach(Place(LISTENER, ADDRESS, board.site.port), context=context, ask=ask_listener)
    assert found.failed is Step.ANSWER


@pytest.mark.parametrize(
    ("host", "step"), [("nowhere.invalid", Step.NAME), (ADDRESS, Step.CONNECTION)], ids=["no name", "nobody listens"]
)
def test_step_that_fails_is_named(board: Board, host: str, step: Step) -> None:
    context = make_context(FILES, board.state, at=board.site.now.timestamp())
    found = reach(Place(BROKER, host, UNUSED_PORT), context=context, ask=ask_broker)
    assert (found.failed, bool(found.error)) == (step, True)


def test_board_whose_certificate_is_missing_says_so_and_tries_nothing(board: Board) -> None:
    (board.state / "tls.crt").unlink()
    found = reach_fleet(FILES, board.state, now=board.site.now.timestamp())
    assert [one.failed for one in found] == [Step.KEYS, Step.KEYS]


def test_server_whose_certificate_has_ended_is_refused(board: Board) -> None:
    later = board.site.now + timedelta(days=20_000)
    context = make_context(FILES, board.state, at=board.site.now.timestamp())
    context.at = later.timestamp()
    found = reach(Place(BROKER, ADDRESS, board.site.port), context=context, ask=ask_broker)
    assert found.failed is Step.TLS


def test_board_that_is_not_enrolled_tries_nothing(tmp_path: Path) -> None:
    assert reach_fleet(FILES, tmp_path, now=0.0) == ()
