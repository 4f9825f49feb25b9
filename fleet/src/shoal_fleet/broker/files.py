"""How do the broker's files come to disk, and which of them change while it runs?"""

import ipaddress
import os
import pwd
import socket
from collections.abc import Iterable

from shoal_fleet.broker.configuration import (
    BrokerPaths,
    BrokerSettings,
    configured_port,
    render_access,
    render_configuration,
)
from shoal_fleet.pki.authority import Identity
from shoal_fleet.pki.files import make_private_folder, write_whole


def write_start(paths: BrokerPaths, *, settings: BrokerSettings, authority_pem: bytes, server: Identity) -> int:
    """Make the folder and write what is read at start. Returns the port.

    A port of 0 becomes that of the last start, else a free one: devices learn it at enrolment, so it must stay.
    `write_revocations` is needed as well before the broker can start.

    Raises:
        ValueError: a setting that Mosquitto would read as something else.
    """
    make_private_folder(paths.folder)
    make_private_folder(paths.state)
    port = settings.port or _port_of_last_start(paths) or _free_port(settings.bind_address)
    configuration = render_configuration(
        bind_address=settings.bind_address,
        port=port,
        user=_system_user(),
        paths=paths,
        is_service=settings.is_service,
    )
    write_whole(paths.authority, authority_pem)
    write_server(paths, server=server)
    write_whole(paths.configuration, configuration.encode())
    return port


def write_server(paths: BrokerPaths, *, server: Identity) -> None:
    """Write the broker's own key and certificate. A running broker takes them at its next reload."""
    write_whole(paths.key, server.key_pem)
    write_whole(paths.certificate, server.certificate_pem)


def write_revocations(paths: BrokerPaths, *, crl_pem: bytes, revoked: Iterable[str]) -> None:
    """Write who is shut out: the list of certificates and the device ids. A reload makes both count.

    The list keeps new connections out; the rules silence those that are open. A device id should stay in `revoked`
    for as long as a certificate of it is valid.

    Raises:
        ValueError: a device id that isn't one; nothing was written.
    """
    access = render_access(revoked=revoked)
    write_whole(paths.crl, crl_pem)
    write_whole(paths.access, access.encode())


def _port_of_last_start(paths: BrokerPaths) -> int | None:
    try:
        return configured_port(paths.configuration.read_text())
    except FileNotFoundError:
        return None


def _free_port(bind_address: str) -> int:
    family = socket.AF_INET6 if ipaddress.ip_address(bind_address).version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((bind_address, 0))
        return int(probe.getsockname()[1])


def _system_user() -> str:
    """Name of who runs this; the number where it has no name, which Mosquitto reads only when started as root."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
