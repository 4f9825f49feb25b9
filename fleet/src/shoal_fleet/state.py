"""What is in the fleet's state folder, and how is it made?

keys/           the fleet's online keys          fleet.db         all rows
authority/      the certificate authority        fleet-keys.json  public halves of the online keys
broker/         the broker's settings and state  addresses.json   where the listeners are
tls/            certificates of the listeners    fleet.toml       settings, if any (`configuration.py`)
sealed/         sealed files by digest           lock             held by the server that runs
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from shoal_fleet.access.models import Role
from shoal_fleet.access.service import create_token, has_tokens
from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.database import make_sessions, open_engine
from shoal_fleet.errors import Conflict
from shoal_fleet.keys import FleetKeys, OnlineKeys
from shoal_fleet.pki.authority import CERTIFICATE_FILE, Authority
from shoal_fleet.pki.files import PUBLIC, make_private_folder, write_whole
from shoal_fleet.schema import migrate

FIRST_TOKEN_NAME = "first"  # noqa: S105 (a name, no secret)


class StatePaths(msgspec.Struct, frozen=True):
    """Where everything is that the fleet keeps."""

    folder: Path

    @property
    def keys(self) -> Path:
        """Folder of the online keys."""
        return self.folder / "keys"

    @property
    def fleet_keys(self) -> Path:
        """Public halves of the online keys, JSON."""
        return self.folder / "fleet-keys.json"

    @property
    def authority(self) -> Path:
        """Folder of the certificate authority."""
        return self.folder / "authority"

    @property
    def authority_certificate(self) -> Path:
        """What boards and operators trust."""
        return self.authority / CERTIFICATE_FILE

    @property
    def broker(self) -> BrokerPaths:
        """The broker's files."""
        return BrokerPaths(self.folder.absolute() / "broker")

    @property
    def tls(self) -> Path:
        """Folder of the listeners' key and certificate, and of the fleet's own as a client of the broker."""
        return self.folder / "tls"

    @property
    def sealed(self) -> Path:
        """Folder of sealed files."""
        return self.folder / "sealed"

    @property
    def database(self) -> Path:
        """SQLite database."""
        return self.folder / "fleet.db"

    @property
    def addresses(self) -> Path:
        """Where the listeners are, JSON."""
        return self.folder / "addresses.json"

    @property
    def configuration(self) -> Path:
        """Settings, TOML. May be missing."""
        return self.folder / "fleet.toml"

    @property
    def lock(self) -> Path:
        """Held by the one server that uses this folder."""
        return self.folder / "lock"


class Made(msgspec.Struct, frozen=True):
    """What is told once when a fleet is made. The token is None where the fleet was there already."""

    fleet_keys: FleetKeys
    authority_sha256: str
    token: str | None


def initialise(paths: StatePaths, *, now: float) -> Made:
    """Make keys, authority, database and first API token, each where it is missing. On disk when this returns.

    Raises:
        BrokenState, BrokenAuthority: a file of an earlier start is damaged.
    """
    make_private_folder(paths.folder)
    keys = OnlineKeys.load_or_create(paths.keys)
    write_whole(paths.fleet_keys, msgspec.json.encode(keys.public), mode=PUBLIC)
    if paths.authority_certificate.exists():
        authority = Authority.load(paths.authority)
    else:
        authority = Authority.create(paths.authority, now=datetime.fromtimestamp(now, UTC))
    engine = open_database(paths)
    try:
        token = _make_first_token(engine, now=now)
    finally:
        engine.dispose()
    return Made(fleet_keys=keys.public, authority_sha256=authority.fingerprint, token=token)


def open_database(paths: StatePaths) -> Engine:
    """Engine of the fleet's database, with all migrations applied."""
    engine = open_engine(paths.database)
    migrate(engine)
    return engine


def lock_state(paths: StatePaths) -> int:
    """Keep other servers off this folder until the process ends; returns the descriptor that holds the lock.

    Raises:
        Conflict: another server uses it.
    """
    descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"{paths.folder}: another shoal-fleet serves from this state folder") from None
    return descriptor


def _make_first_token(engine: Engine, *, now: float) -> str | None:
    with make_sessions(engine)() as session:
        if has_tokens(session):
            return None
        session.rollback()
        return create_token(session, name=FIRST_TOKEN_NAME, role=Role.ADMIN, now=now)
