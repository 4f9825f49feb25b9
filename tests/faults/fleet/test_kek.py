"""Power goes while the key-encryption key is changed, or while an earlier fleet's keys are first wrapped: is every
content key still there afterwards, and under one key only?"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from shoal_fleet.database import make_sessions, open_engine, writing
from shoal_fleet.errors import FleetError
from shoal_fleet.kek import service as kek
from shoal_fleet.kek.models import FleetSecret, WrappingKey
from shoal_fleet.kek_rotation import rotate
from shoal_fleet.keys import PLAIN_HPKE_FILE, OnlineKeys
from shoal_fleet.releases import content_keys
from shoal_fleet.releases.models import FleetGrant, Release, ReleaseKey
from shoal_fleet.state import StatePaths, initialise, open_database, open_keys, unlock
from shoal_wire.grant import FLEET, GrantContext, hpke_public_text, make_grant
from sqlalchemy import delete, select

from tests.faults.fleet.dying import dies_at

NOW = 1_800_000_000.0
BEFORE, AFTER = "file:../before.key", "file:../after.key"
CONTENT_KEYS = {f"{number:064x}": bytes([number]) * 32 for number in range(1, 4)}


class Found(NamedTuple):
    """What a fleet can open."""

    kek: str
    hpke: str
    hybrid: str
    content_keys: dict[str, bytes]


def open_fleet(folder: Path) -> Found:
    """Everything opened as a start does it, by the key that the database names."""
    paths = StatePaths(folder)
    engine = open_engine(paths.database)
    try:
        with make_sessions(engine)() as session, writing(session):
            vault = kek.unlock(session, uri="", state=folder, now=NOW)
            keys = OnlineKeys.load_or_create(paths.keys, session, vault=vault, now=NOW)
            found = content_keys.read(session, session.scalars(select(Release)).one(), vault=vault)
            row = kek.find_wrapping_key(session)
            assert row is not None
        return Found(row.kek, keys.public.hpke, keys.public.hybrid, found)
    finally:
        engine.dispose()


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """State folder of a fleet with one release of three files."""
    paths = StatePaths(tmp_path / "whole" / "state")
    vault = unlock(paths, kek_uri=BEFORE, now=NOW)
    initialise(paths, now=NOW, vault=vault)
    engine = open_database(paths)
    with make_sessions(engine)() as session, writing(session):
        release = Release(name="notes", version=1, manifest_sha256="ab" * 32, targets_version=1, created_at=NOW)
        session.add(release)
        session.flush()
        content_keys.keep(session, release, CONTENT_KEYS, vault=vault)
    engine.dispose()
    return paths.folder


@pytest.fixture
def earlier_fleet(fleet: Path) -> Path:
    """The same as an earlier version had it: the HPKE key in the clear, content keys as the publisher sealed them."""
    key = X25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (StatePaths(fleet).keys / PLAIN_HPKE_FILE).write_bytes(pem)
    context = GrantContext(release="notes", version=1, recipient=FLEET)
    engine = open_engine(StatePaths(fleet).database)
    with make_sessions(engine)() as session, writing(session):
        for table in (ReleaseKey, FleetSecret, WrappingKey):
            session.execute(delete(table))
        for digest, content_key in CONTENT_KEYS.items():
            grant = make_grant(content_key, key.public_key(), context=context, ciphertext_sha256=digest, counter=0)
            row = FleetGrant(release_id=1, ciphertext_sha256=digest, counter=0, sealed_key=grant.sealed_key)
            session.add(row)
    engine.dispose()
    return fleet


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


def test_rotation_leaves_everything_under_one_of_the_two_keys(fleet: Path, tmp_path: Path) -> None:
    before = open_fleet(fleet)
    assert before.content_keys == CONTENT_KEYS
    died = copies(fleet, tmp_path, work=lambda copy: rotate(StatePaths(copy), kek_uri=BEFORE, to=AFTER, now=NOW))
    seen = set()
    for copy in died:
        found = open_fleet(copy)
        assert found._replace(kek=BEFORE) == before
        seen.add(found.kek)
    assert BEFORE in seen
    assert len(died) > 8
    again = died[-1]
    rotate(StatePaths(again), kek_uri="", to=AFTER, now=NOW)
    assert open_fleet(again) == before._replace(kek=AFTER)


def test_the_key_before_opens_nothing_afterwards(fleet: Path) -> None:
    rotate(StatePaths(fleet), kek_uri=BEFORE, to=AFTER, now=NOW)
    (fleet / "../after.key").unlink()
    with pytest.raises(FleetError, match=r"is not the key .*: they are under file:\.\./after\.key"):
        unlock(StatePaths(fleet), kek_uri=BEFORE, now=NOW)


def test_no_row_is_left_in_the_files_as_it_was_under_the_key_before(fleet: Path) -> None:
    engine = open_engine(StatePaths(fleet).database)
    with make_sessions(engine)() as session:
        wrapped: list[bytes] = []
        for column in (ReleaseKey.wrapped, FleetSecret.wrapped, WrappingKey.wrapped):
            wrapped += session.scalars(select(column))
    engine.dispose()
    assert len(wrapped) == 6
    rotate(StatePaths(fleet), kek_uri=BEFORE, to=AFTER, now=NOW)
    files = b"".join(path.read_bytes() for path in fleet.glob("fleet.db*"))
    assert not [row for row in wrapped if row in files]


def test_rotation_to_a_key_that_can_not_be_used_changes_nothing(fleet: Path) -> None:
    before = open_fleet(fleet)
    with pytest.raises(FleetError, match="awskms"):
        rotate(StatePaths(fleet), kek_uri=BEFORE, to="awskms:alias/shoal", now=NOW)
    assert open_fleet(fleet) == before


def test_keys_of_an_earlier_fleet_are_wrapped_whenever_power_goes(earlier_fleet: Path, tmp_path: Path) -> None:
    plain = StatePaths(earlier_fleet).keys / PLAIN_HPKE_FILE
    public = hpke_public_text(_load(plain).public_key())

    def start(copy: Path) -> None:
        paths = StatePaths(copy)
        vault = unlock(paths, kek_uri=BEFORE, now=NOW)
        engine = open_database(paths)
        open_keys(paths, make_sessions(engine), vault=vault, now=NOW)
        engine.dispose()

    died = copies(earlier_fleet, tmp_path, work=start)
    assert len(died) > 8
    for copy in died:
        start(copy)
        found = open_fleet(copy)
        assert (found.hpke, found.content_keys) == (public, CONTENT_KEYS)
        assert not (StatePaths(copy).keys / PLAIN_HPKE_FILE).exists()


def _load(path: Path) -> X25519PrivateKey:
    key = load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, X25519PrivateKey)
    return key
