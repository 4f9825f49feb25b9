"""Does the fleet keep signed statements of its log, and notice by itself that the log was changed?"""

import logging
from pathlib import Path

import pytest
from shoal_fleet.audit.checkpoints import INTERVAL_S, AuditKey, Checkpoints
from shoal_fleet.audit.models import AuditCheckpointRow
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_wire import audit
from sqlalchemy import select, text

from tests.unit.fleet.audit.log_entries import append
from tests.unit.fleet.boards import NOW


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key(tmp_path: Path) -> AuditKey:
    return AuditKey.load_or_create(tmp_path / "keys")


@pytest.fixture
def checkpoints(sessions: Sessions, key: AuditKey, clock: Clock) -> Checkpoints:
    return Checkpoints(sessions, key=key, clock=clock)


def kept(sessions: Sessions) -> list[int]:
    with sessions() as session:
        return list(session.scalars(select(AuditCheckpointRow.sequence).order_by(AuditCheckpointRow.sequence)))


def rewrite(sessions: Sessions) -> None:
    """What whoever owns the database does: take the triggers away, then change."""
    with sessions() as session, writing(session):
        session.execute(text("DROP TRIGGER audit_entry_no_update"))
        session.execute(text("UPDATE audit_entry SET digest = :digest WHERE sequence = 1"), {"digest": "f" * 64})


def test_one_at_the_start_and_one_an_hour_while_the_log_grows(
    sessions: Sessions, checkpoints: Checkpoints, clock: Clock, key: AuditKey
) -> None:
    checkpoints.renew()
    assert kept(sessions) == []
    append(sessions, "device.enrolled")
    restarted = Checkpoints(sessions, key=key, clock=clock)
    restarted.renew()
    append(sessions, "device.revoked")
    restarted.renew()
    assert kept(sessions) == [1]
    clock.now += INTERVAL_S
    restarted.renew()
    clock.now += INTERVAL_S
    restarted.renew()
    assert kept(sessions) == [1, 2]


def test_a_kept_checkpoint_names_the_head_and_is_signed(
    sessions: Sessions, checkpoints: Checkpoints, key: AuditKey
) -> None:
    append(sessions, "device.enrolled")
    checkpoints.renew()
    with sessions() as session:
        row = session.scalars(select(AuditCheckpointRow)).one()
        digest = session.scalar(text("SELECT digest FROM audit_entry"))
    found = audit.open_checkpoint(row.envelope, key.verifier, what="checkpoint")
    assert (found.sequence, found.digest, found.at) == (1, digest, NOW)


def test_a_changed_log_is_told_and_gets_no_new_checkpoint(
    sessions: Sessions, checkpoints: Checkpoints, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    append(sessions, "device.enrolled")
    checkpoints.renew()
    rewrite(sessions)
    append(sessions, "device.revoked")
    clock.now += INTERVAL_S
    with caplog.at_level(logging.ERROR):
        checkpoints.renew()
    assert kept(sessions) == [1]
    assert "entry 1 was signed with the digest" in caplog.text


def test_a_checkpoint_that_the_key_did_not_sign_is_told(
    sessions: Sessions, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    append(sessions, "device.enrolled")
    Checkpoints(sessions, key=AuditKey.load_or_create(tmp_path / "other"), clock=clock).renew()
    with caplog.at_level(logging.ERROR):
        Checkpoints(sessions, key=AuditKey.load_or_create(tmp_path / "keys"), clock=clock).renew()
    assert "can't be trusted" in caplog.text


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = AuditKey.load_or_create(tmp_path / "keys")
    assert AuditKey.load_or_create(tmp_path / "keys").public == first.public
    assert (tmp_path / "keys/audit.pem").stat().st_mode & 0o777 == 0o600


def test_a_damaged_key_is_told(tmp_path: Path) -> None:
    AuditKey.load_or_create(tmp_path)
    (tmp_path / "audit.pem").write_bytes(b"nothing")
    with pytest.raises(BrokenState, match=r"audit\.pem: expected a private key"):
        AuditKey.load_or_create(tmp_path)
