"""What is in the fleet's state folder, and how is it made?

authority/      certificates of the authorities  fleet.db         all rows, private keys among them, wrapped
broker/         the broker's settings and state  fleet-keys.json  public halves of the online keys
tls/            the listeners' certificates      addresses.json   where the listeners are
sealed/         sealed files by digest           fleet.toml       settings, if any (`configuration.py`)
                                                 lock             held by the server that runs
kek/            the key-encryption key, unless it is elsewhere (`kek/schemes.py`): left out of back-ups
"""

import fcntl
import os
from contextlib import nullcontext
from pathlib import Path

import msgspec
from sqlalchemy import Engine

from shoal_fleet import plain_keys
from shoal_fleet.access.roles import Role
from shoal_fleet.access.service import create_token, has_tokens
from shoal_fleet.authority_keys import open_authorities
from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.database import Sessions, make_sessions, open_engine, writing
from shoal_fleet.errors import Conflict, NotFound
from shoal_fleet.kek import service as kek
from shoal_fleet.kek.scrubbing import scrub_if_due
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import FleetKeys, OnlineKeys
from shoal_fleet.pki.authority import CERTIFICATE_FILE
from shoal_fleet.pki.files import PUBLIC, make_private_folder, write_whole
from shoal_fleet.releases import content_keys
from shoal_fleet.schema import migrate

FIRST_TOKEN_NAME = "first"  # noqa: S105 (a name, no secret)


class StatePaths(msgspec.Struct, frozen=True):
    """Where everything is that the fleet keeps."""

    folder: Path

    @property
    def fleet_keys(self) -> Path:
        """Public halves of the online keys, JSON."""
        return self.folder / "fleet-keys.json"

    @property
    def authority(self) -> Path:
        """Folder of the authorities' certificates."""
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

    A vault that is there is opened without the database's write lock, as the key may be asked for at the terminal while
    the fleet runs.

    Raises:
        BadConfiguration: the key can't be reached, or isn't the one.
    """
    make_private_folder(paths.folder)
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session:
            is_there = kek.find_wrapping_key(session) is not None
            session.rollback()
            with nullcontext() if is_there else writing(session):
                return kek.unlock(session, uri=kek_uri, state=paths.folder, now=now)
    finally:
        engine.dispose()


def open_keys(paths: StatePaths, sessions: Sessions, *, vault: Vault, now: float) -> OnlineKeys:
    """The fleet's keys; those that are missing are made, and what an earlier version kept in the clear is wrapped.

    Raises:
        BrokenState: a file of an earlier version holds no key of its kind, or a row doesn't open.
        Conflict: the wrapping key was changed since the vault was opened.
        Untrusted: content keys are sealed to another key of the fleet, as after a restore of the database alone.
    """
    with sessions() as session, writing(session):
        plain_keys.take_over(session, paths.folder, vault=vault, now=now)
        keys = OnlineKeys.load_or_create(session, vault=vault, now=now)
        content_keys.take_over_grants(session, keys.recipient, vault=vault)
    plain_keys.forget(paths.folder)
    return keys


def initialise(paths: StatePaths, *, now: float, vault: Vault | None = None) -> Made:
    """Make keys, authority, database and first API token, each where it is missing. On disk when this returns.

    Without a vault, it is opened as the database says.

    Raises:
        BrokenState, BrokenAuthority: a file or a row of an earlier start is damaged or missing.
        BadConfiguration: the key-encryption key can't be reached.
    """
    make_private_folder(paths.folder)
    vault = vault or unlock(paths, now=now)
    engine = open_database(paths)
    try:
        sessions = make_sessions(engine)
        keys = open_keys(paths, sessions, vault=vault, now=now)
        scrub_if_due(engine)
        write_whole(paths.fleet_keys, msgspec.json.encode(keys.public), mode=PUBLIC)
        authority = open_authorities(paths.authority, sessions, vault=vault, now=now).issuer
        token = _make_first_token(engine, now=now)
    finally:
        engine.dispose()
    return Made(fleet_keys=keys.public, authority_sha256=authority.fingerprint, token=token)


def open_database(paths: StatePaths) -> Engine:
    """Engine of the fleet's database, with all migrations applied."""
    engine = open_engine(paths.database)
    migrate(engine)
    return engine


def check_made(paths: StatePaths) -> None:
    """Make sure that a command which changes a fleet was given the folder of one.

    Raises:
        NotFound: it wasn't.
    """
    if not paths.database.exists():
        raise NotFound(f"{paths.folder}: expected the state folder of a fleet; `shoal-fleet init` makes one")


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
