"""What is in the fleet's state folder, and how is it made?

keys/           the fleet's online keys          fleet.db         all rows
authority/      the certificate authority        fleet-keys.json  public halves of the online keys
broker/         the broker's settings and state  addresses.json   where the listeners are
tls/            certificates of the listeners    fleet.toml       settings, if any (`configuration.py`)
sealed/         sealed files by digest           lock             held by the server that runs
kek/            the key-encryption key, unless it is elsewhere (`kek/schemes.py`): left out of back-ups
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from shoal_fleet.access.roles import Role
from shoal_fleet.access.service import create_token, has_tokens
from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.database import Sessions, make_sessions, open_engine, writing
from shoal_fleet.errors import Conflict
from shoal_fleet.kek import service as kek
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import FleetKeys, OnlineKeys, forget_plain_key
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import CERTIFICATE_FILE, Authority
from shoal_fleet.pki.files import PUBLIC, make_private_folder, write_whole
from shoal_fleet.releases import content_keys
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


def unlock(paths: StatePaths, *, kek_uri: str = "", now: float) -> Vault:
    """The vault, opened by the key-encryption key of that URI; by the one that the database names where it is empty.

    Raises:
        BadConfiguration: the key can't be reached, or isn't the one.
    """
    make_private_folder(paths.folder)
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session, writing(session):
            return kek.unlock(session, uri=kek_uri, state=paths.folder, now=now)
    finally:
        engine.dispose()


def open_keys(paths: StatePaths, sessions: Sessions, *, vault: Vault, now: float) -> OnlineKeys:
    """The fleet's keys; those that are missing are made, and what an earlier version kept in the clear is wrapped.

    Raises:
        BrokenState: a file or a row holds no key of its kind.
        Untrusted: content keys are sealed to another key of the fleet, as after a restore of the database alone.
    """
    with sessions() as session, writing(session):
        keys = OnlineKeys.load_or_create(paths.keys, session, vault=vault, now=now)
        content_keys.take_over_grants(session, keys.recipient, vault=vault)
    forget_plain_key(paths.keys)
    return keys


def initialise(paths: StatePaths, *, now: float, vault: Vault | None = None) -> Made:
    """Make keys, authority, database and first API token, each where it is missing. On disk when this returns.

    Without a vault, it is opened as the database says.

    Raises:
        BrokenState, BrokenAuthority: a file of an earlier start is damaged.
        BadConfiguration: the key-encryption key can't be reached.
    """
    make_private_folder(paths.folder)
    vault = vault or unlock(paths, now=now)
    engine = open_database(paths)
    try:
        keys = open_keys(paths, make_sessions(engine), vault=vault, now=now)
        write_whole(paths.fleet_keys, msgspec.json.encode(keys.public), mode=PUBLIC)
        if paths.authority_certificate.exists():
            authority = Authorities.load(paths.authority).issuer
        else:
            authority = Authority.create(paths.authority, now=datetime.fromtimestamp(now, UTC))
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
        return create_token(session, name=FIRST_TOKEN_NAME, roles=[Role.ADMIN], now=now)
