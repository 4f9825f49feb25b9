"""Does the fleet keep signed statements of its log, and notice by itself that the log was changed?"""

import logging

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_fleet.audit.checkpoints import INTERVAL_S, AuditKey, Checkpoints
from shoal_fleet.audit.models import AuditCheckpointRow
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.vault import Vault
from shoal_wire import audit
from sqlalchemy import select, text

from tests.unit.fleet.audit.log_entries import append
from tests.unit.fleet.boards import NOW

VAULT = Vault(bytes(32))


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key(sessions: Sessions) -> AuditKey:
    return AuditKey.load_or_create(sessions, vault=VAULT, now=NOW)


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
    assert checkpoints.find_trouble() is None
    rewrite(sessions)
    append(sessions, "device.revoked")
    clock.now += INTERVAL_S
    with caplog.at_level(logging.ERROR):
        checkpoints.renew()
    assert kept(sessions) == [1]
    assert "entry 1 was signed with the digest" in caplog.text
    assert (checkpoints.find_trouble() or "nothing") in caplog.text


def test_a_checkpoint_that_the_key_did_not_sign_is_told(
    sessions: Sessions, checkpoints: Checkpoints, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    append(sessions, "device.enrolled")
    Checkpoints(sessions, key=AuditKey(Ed25519PrivateKey.generate()), clock=clock).renew()
    with caplog.at_level(logging.ERROR):
        checkpoints.renew()
    assert "can't be trusted" in caplog.text


def test_the_key_is_made_once_and_opens_by_the_vault_alone(sessions: Sessions, key: AuditKey) -> None:
    assert AuditKey.load_or_create(sessions, vault=VAULT, now=NOW).public == key.public
    with pytest.raises(BrokenState, match="fleet key audit: doesn't open"):
        AuditKey.load_or_create(sessions, vault=Vault(b"\1" * 32), now=NOW)
