"""Power goes while the key-encryption key or another key of the fleet is changed, or while an earlier fleet's keys are
first wrapped: is every key still there afterwards, and under one key only?"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from shoal_fleet import authority_keys
from shoal_fleet.audit.checkpoints import AuditKey
from shoal_fleet.authority_cli import read_status
from shoal_fleet.database import Sessions, make_sessions, open_engine, writing
from shoal_fleet.errors import FleetError
from shoal_fleet.kek import service as kek
from shoal_fleet.kek.models import FleetSecret, WrappingKey
from shoal_fleet.kek.vault import Vault
from shoal_fleet.kek_rotation import rotate
from shoal_fleet.releases import content_keys
from shoal_fleet.releases.models import FleetGrant, Release, ReleaseKey
from shoal_fleet.signing_keys import make_next
from shoal_fleet.state import StatePaths, initialise, open_keys, unlock
from shoal_wire.grant import FLEET, GrantContext, make_grant
from sqlalchemy import delete, select

from tests.faults.fleet.dying import dies_at
from tests.system.fleet.byte_scan import find, secret_bytes

NOW = 1_800_000_000.0
BEFORE, AFTER = "file:../before.key", "file:../after.key"
CONTENT_KEYS = {f"{number:064x}": bytes([number]) * 32 for number in range(1, 4)}
PLAIN = {
    "snapshot": "keys/snapshot.pem",
    "timestamp": "keys/timestamp.pem",
    "assignment": "keys/assignment.pem",
    "next-snapshot": "keys/next/snapshot.pem",
    "next-timestamp": "keys/next/timestamp.pem",
    "next-assignment": "keys/next/assignment.pem",
    "audit": "keys/audit.pem",
    "hpke": "keys/hpke.pem",
    "authority-1": "authority/ca.key",
    "authority-2": "authority/2/ca.key",
}
"""Where an earlier version had each key in the clear."""


class Found(NamedTuple):
    """What a fleet can open."""

    kek: str
    secrets: dict[str, bytes]
    content_keys: dict[str, bytes]


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Sessions, Vault]]:
    """The database, and the vault by the key that the database names."""
    engine = open_engine(StatePaths(folder).database)
    try:
        sessions = make_sessions(engine)
        with sessions() as session:
            vault = kek.unlock(session, uri="", state=folder, now=NOW)
        yield sessions, vault
    finally:
        engine.dispose()


def open_fleet(folder: Path) -> Found:
    """Everything that opens."""
    with opened(folder) as (sessions, vault), sessions() as session:
        secrets = {name: kek.read_secret_key(session, name, vault=vault) for name in kek.list_secret_keys(session)}
        found = content_keys.read(session, session.scalars(select(Release)).one(), vault=vault)
        row = kek.find_wrapping_key(session)
        assert row is not None
        return Found(row.kek, {name: secret for name, secret in secrets.items() if secret is not None}, found)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """State folder of a fleet with two authorities, keys that are to follow, and one release of three files."""
    paths = StatePaths(tmp_path / "whole" / "state")
    initialise(paths, now=NOW, vault=unlock(paths, kek_uri=BEFORE, now=NOW))
    with opened(paths.folder) as (sessions, vault):
        AuditKey.load_or_create(sessions, vault=vault, now=NOW)
        authority_keys.follow(paths.authority, sessions, vault=vault, now=NOW)
        with sessions() as session, writing(session):
            make_next(session, vault=vault, now=NOW)
            release = Release(name="notes", version=1, manifest_sha256="ab" * 32, targets_version=1, created_at=NOW)
            session.add(release)
            session.flush()
            content_keys.keep(session, release, CONTENT_KEYS, vault=vault)
    return paths.folder


@pytest.fixture
def earlier_fleet(fleet: Path) -> Path:
    """The same as an earlier version had it: keys in the clear, content keys as the publisher sealed them."""
    secrets = open_fleet(fleet).secrets
    for name, path in PLAIN.items():
        (fleet / path).parent.mkdir(parents=True, exist_ok=True)
        (fleet / path).write_bytes(pem(name, secrets[name]))
    hpke = X25519PrivateKey.from_private_bytes(secrets["hpke"])
    context = GrantContext(release="notes", version=1, recipient=FLEET)
    engine = open_engine(StatePaths(fleet).database)
    with make_sessions(engine)() as session, writing(session):
        for table in (ReleaseKey, FleetSecret, WrappingKey):
            session.execute(delete(table))
        for digest, content_key in CONTENT_KEYS.items():
            grant = make_grant(content_key, hpke.public_key(), context=context, ciphertext_sha256=digest, counter=0)
            row = FleetGrant(release_id=1, ciphertext_sha256=digest, counter=0, sealed_key=grant.sealed_key)
            session.add(row)
    engine.dispose()
    return fleet


def pem(name: str, secret: bytes) -> bytes:
    if name.startswith("authority"):
        key = load_der_private_key(secret, password=None)
    else:
        key = (X25519PrivateKey if name == "hpke" else Ed25519PrivateKey).from_private_bytes(secret)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def start(folder: Path) -> None:
    """What a start does."""
    paths = StatePaths(folder)
    initialise(paths, now=NOW, vault=unlock(paths, kek_uri="", now=NOW))


def copies(fleet: Path, folder: Path, *, work: Callable[[Path], object]) -> list[Path]:
    """A copy of the fleet for each write that the work does, in each of which it died right before that write."""
    died: list[Path] = []
    for nth in itertools.count(1):
        copy = folder / f"died-{nth}" / "state"
        shutil.copytree(fleet.parent, copy.parent)
        if not dies_at(nth, lambda copy=copy: work(copy)):  # type: ignore[misc]
            return died
        died.append(copy)
    raise AssertionError


def wrapped_rows(fleet: Path) -> list[bytes]:
    """All rows as they are now."""
    engine = open_engine(StatePaths(fleet).database)
    with make_sessions(engine)() as session:
        rows: list[bytes] = []
        for column in (ReleaseKey.wrapped, FleetSecret.wrapped, WrappingKey.wrapped):
            rows += session.scalars(select(column))
    engine.dispose()
    return rows


def still_there(rows: list[bytes], fleet: Path) -> int:
    """How many of them are still in the database's files."""
    files = b"".join(path.read_bytes() for path in fleet.glob("fleet.db*"))
    return len([row for row in rows if row in files])


def test_rotation_leaves_everything_under_one_of_the_two_keys(fleet: Path, tmp_path: Path) -> None:
    before, rows = open_fleet(fleet), wrapped_rows(fleet)
    assert before.content_keys == CONTENT_KEYS
    assert before.secrets.keys() == PLAIN.keys() | {"hpke-hybrid"}
    died = copies(fleet, tmp_path, work=lambda copy: rotate(StatePaths(copy), kek_uri=BEFORE, to=AFTER, now=NOW))
    seen, left = set(), 0
    for copy in died:
        as_it_died = still_there(rows, copy)
        found = open_fleet(copy)
        assert found._replace(kek=BEFORE) == before
        seen.add(found.kek)
        if found.kek == AFTER:
            left = max(left, as_it_died)
            start(copy)
            assert still_there(rows, copy) == 0
    assert seen == {BEFORE, AFTER}
    assert left > 0, "some died before the database was rid of the rows as they were"
    assert len(died) > 8
    again = died[0]
    assert rotate(StatePaths(again), kek_uri="", to=AFTER, now=NOW).is_scrubbed
    assert open_fleet(again) == before._replace(kek=AFTER)
    assert still_there(rows, again) == 0


def test_the_key_before_opens_nothing_afterwards(fleet: Path) -> None:
    rotate(StatePaths(fleet), kek_uri=BEFORE, to=AFTER, now=NOW)
    (fleet / "../after.key").unlink()
    with pytest.raises(FleetError, match=r"is not the key .*: they are under file:\.\./after\.key"):
        unlock(StatePaths(fleet), kek_uri=BEFORE, now=NOW)


def test_rotation_to_a_key_that_can_not_be_used_changes_nothing(fleet: Path) -> None:
    before = open_fleet(fleet)
    with pytest.raises(FleetError, match="awskms"):
        rotate(StatePaths(fleet), kek_uri=BEFORE, to="awskms:alias/shoal", now=NOW)
    assert open_fleet(fleet) == before


def test_keys_of_an_earlier_fleet_are_wrapped_whenever_power_goes(earlier_fleet: Path, tmp_path: Path) -> None:
    plain = {name: (earlier_fleet / path).read_bytes() for name, path in PLAIN.items()}

    def upgrade(copy: Path) -> None:
        paths = StatePaths(copy)
        vault, engine = unlock(paths, kek_uri=BEFORE, now=NOW), open_engine(paths.database)
        open_keys(paths, make_sessions(engine), vault=vault, now=NOW)
        engine.dispose()

    died = copies(earlier_fleet, tmp_path, work=upgrade)
    assert len(died) > 2 * len(PLAIN)
    for copy in died:
        upgrade(copy)
        found = open_fleet(copy)
        assert {name: pem(name, found.secrets[name]) for name in PLAIN} == plain
        assert found.content_keys == CONTENT_KEYS
    start(died[0])
    assert [one.state for one in read_status(StatePaths(died[0]), now=NOW)] == ["followed", "issues"]
    secrets = {name: secret_bytes(name, kept) for name, kept in found.secrets.items()}
    assert len(find(earlier_fleet, short=secrets, long=b"")) >= len(PLAIN)
    assert {line for copy in died for line in find(copy, short=secrets, long=b"")} == set()


def test_a_restored_copy_of_an_earlier_fleet_opens_as_it_did(earlier_fleet: Path, tmp_path: Path) -> None:
    back_up = shutil.copytree(earlier_fleet.parent, tmp_path / "back-up") / "state"
    for folder in (earlier_fleet, back_up):
        unlock(StatePaths(folder), kek_uri=BEFORE, now=NOW)
        start(folder)
    first, second = (open_fleet(folder).secrets for folder in (earlier_fleet, back_up))
    assert {name: first[name] for name in PLAIN} == {name: second[name] for name in PLAIN}


def test_an_authority_is_made_once_whenever_power_goes(fleet: Path, tmp_path: Path) -> None:
    def follow(copy: Path) -> None:
        with opened(copy) as (sessions, vault):
            authority_keys.follow(StatePaths(copy).authority, sessions, vault=vault, now=NOW)

    died = copies(fleet, tmp_path, work=follow)
    assert len(died) > 4
    for copy in died:
        start(copy)
        assert [one.state for one in read_status(StatePaths(copy), now=NOW)] == ["followed", "issues"]
        follow(copy)
        assert [one.state for one in read_status(StatePaths(copy), now=NOW)] == ["followed", "followed", "issues"]
    start(died[-1])


def test_the_next_signing_keys_count_together_whenever_power_goes(fleet: Path, tmp_path: Path) -> None:
    names = ("snapshot", "timestamp", "assignment")
    before = open_fleet(fleet).secrets
    old, coming = ({name: before[prefix + name] for name in names} for prefix in ("", "next-"))

    def take_up(copy: Path) -> None:
        with opened(copy) as (sessions, vault):
            keys = open_keys(StatePaths(copy), sessions, vault=vault, now=NOW)
            with sessions() as session:
                keys.take_up_next(session)

    died = copies(fleet, tmp_path, work=take_up)
    assert len(died) > 4
    for copy in died:
        assert {name: open_fleet(copy).secrets[name] for name in names} == old
        take_up(copy)
        after = open_fleet(copy).secrets
        assert {name: after[name] for name in names} == coming
        assert not any(name.startswith("next-") for name in after)
