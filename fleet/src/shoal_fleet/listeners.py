"""How are the two HTTPS listeners opened: with which ports, which certificates, and which clients?"""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvicorn
from starlette.types import ASGIApp

from shoal_fleet.errors import Conflict
from shoal_fleet.pki.authority import Identity
from shoal_fleet.pki.files import make_private_folder, write_whole

BACKLOG = 512
MAX_CONNECTIONS = 2000
GRACE_S = 2.0
"""How long answers that are being sent have at the end, and clients that are idle to say goodbye."""


class TlsFiles(msgspec.Struct, frozen=True):
    """Key and certificate where the TLS library wants them: in files."""

    key: Path
    certificate: Path

    @classmethod
    def write(cls, folder: Path, *, name: str, identity: Identity) -> "TlsFiles":
        """Write them as `<name>.key` and `<name>.pem`."""
        make_private_folder(folder)
        files = cls(key=folder / f"{name}.key", certificate=folder / f"{name}.pem")
        write_whole(files.key, identity.key_pem)
        write_whole(files.certificate, identity.certificate_pem)
        return files


def make_operators_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS 1.3, for clients with an API token or an enrolment token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(files.certificate, files.key)
    return context


def make_devices_context(files: TlsFiles, *, authorities: Path, crl: Path) -> ssl.SSLContext:
    """TLS 1.3, for clients with a certificate of one of the authorities that isn't revoked.

    A newer revocation list is added by `load_verify_locations` and counts from the next handshake. No session is taken
    up again, as that would skip the list.
    """
    context = make_operators_context(files)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    context.load_verify_locations(authorities)
    context.load_verify_locations(crl)
    return context


def bind_socket(address: str, *, port: int, last_port: int | None, what: str) -> socket.socket:
    """Listening socket on `port`; for port 0 on that of the last start, else on any that is free.

    Raises:
        Conflict: another program has the port.
    """
    wanted = port or last_port or 0
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, wanted))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Conflict(f"{what}: can't listen on {address} port {wanted}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


class Listener(uvicorn.Server):
    """One HTTPS server on a socket that is bound already. Signals are the program's, not its own."""

    def __init__(self, app: ASGIApp, *, context: ssl.SSLContext) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ssl_context_factory=lambda _config, _default: context,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    def end(self) -> None:
        """Make `serve` return once the answers under way are sent."""
        self.should_exit = True

    def close_connections(self) -> None:
        """End every connection after the answer under way, so that all clients come through a handshake again."""
        for connection in list(self.server_state.connections):
            connection.shutdown()
