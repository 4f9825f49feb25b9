"""What must Mosquitto be told so that each client reaches its own topics and nothing else?

Rules only: settings in, text out. Written for Mosquitto 2.0.11 and later.
"""

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_fleet.pki.names import FLEET_NAME, checked_device_id

MAX_PACKET_BYTES = (256 + 16) * 1024
"""Longest packet: a payload of 256 KiB, its topic and properties. Clients are told; who sends more is cut off."""

_LISTENER = re.compile(r"^listener (\d+) ", re.MULTILINE)


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker listens, and who keeps what it says. Port 0: a free one is chosen once and kept."""

    bind_address: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    is_service: bool = False
    """It is a service of its own: what it says goes to its standard error, for the journal. Else to a file."""


class BrokerPaths(msgspec.Struct, frozen=True):
    """The files of a broker, all in one folder."""

    folder: Path

    @property
    def configuration(self) -> Path:
        """What Mosquitto is started with."""
        return self.folder / "mosquitto.conf"

    @property
    def access(self) -> Path:
        """Who may read and write which topics."""
        return self.folder / "access"

    @property
    def authority(self) -> Path:
        """Certificate of the authority that signs clients and the broker."""
        return self.folder / "ca.pem"

    @property
    def crl(self) -> Path:
        """Certificates that were revoked."""
        return self.folder / "crl.pem"

    @property
    def certificate(self) -> Path:
        """The broker's own certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The broker's own key."""
        return self.folder / "server.key"

    @property
    def state(self) -> Path:
        """Folder of retained messages and sessions."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """What Mosquitto says, where the fleet runs it."""
        return self.folder / "mosquitto.log"


def render_configuration(
    *, bind_address: str, port: int, user: str, paths: BrokerPaths, is_service: bool = False
) -> str:
    """Text of `mosquitto.conf`.

    Args:
        is_service: see `BrokerSettings`.
        user: operating system user who owns the folder. Mosquitto drops to it when started as root; left out, it
            would drop to one who can't save there.

    Raises:
        ValueError: a value that Mosquitto would read as something else.
    """
    folder = str(paths.folder)
    if not paths.folder.is_absolute() or not folder.isprintable():
        raise ValueError(f"broker folder: expected an absolute path of printable characters, found {folder!r}")
    if not 1 <= port <= 65535:
        raise ValueError(f"broker port: expected 1 to 65535, found {port}")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", user):
        raise ValueError(f"broker user: expected the name of a system user, found {user!r}")
    return _CONFIGURATION.format(
        address=ipaddress.ip_address(bind_address),
        port=port,
        user=user,
        paths=paths,
        packet=MAX_PACKET_BYTES,
        log="stderr" if is_service else f"file {paths.log}",
    )


def render_access(*, revoked: Iterable[str]) -> str:
    """Text of the access file. A revoked device that is still connected is mute and deaf once this is reloaded.

    Raises:
        ValueError: a device id that isn't one.
    """
    blocks = [_ACCESS.format(fleet=FLEET_NAME)]
    blocks += [f"user {checked_device_id(device)}\ntopic deny #\n" for device in sorted(set(revoked))]
    return "\n".join(blocks)


def configured_port(configuration: str) -> int | None:
    """The port that an earlier configuration chose, None if it names none."""
    found = _LISTENER.search(configuration)
    return int(found[1]) if found else None


_CONFIGURATION = """\
# Written by shoal-fleet at each start; changes are lost.

# One listener, so its access rules are the global ones: only those are read again on SIGHUP.
per_listener_settings false
listener {port} {address}
user {user}

# Who connects: a certificate of this fleet's authority, not revoked. Its CN is user name and client id, so that nobody
# can take over another's session.
tls_version tlsv1.3
cafile {paths.authority}
certfile {paths.certificate}
keyfile {paths.key}
crlfile {paths.crl}
require_certificate true
use_identity_as_username true
use_username_as_clientid true
allow_anonymous false
acl_file {paths.access}

# Every change is saved at once, but after it was acknowledged: a kill in between loses it.
persistence true
persistence_location {paths.state}/
autosave_on_changes true
autosave_interval 1
retain_available true
# A device that stays away for so long finds its desired document, not the messages in between.
persistent_client_expiration 2m

# What one client can make the broker hold.
max_packet_size {packet}
max_inflight_messages 20
max_queued_messages 10000
max_queued_bytes 67108864

sys_interval 0
set_tcp_nodelay true
log_dest {log}
log_type error
log_type warning
log_type notice
connection_messages true
log_timestamp true
log_timestamp_format %Y-%m-%dT%H:%M:%S
"""

_ACCESS = """\
# Written by shoal-fleet at each change; changes are lost.
pattern write shoal/v1/%u/up/#
pattern read shoal/v1/%u/down/#

user {fleet}
topic readwrite shoal/v1/#
"""
