"""How does someone outside notice that the end of the log was cut off, or all of it written anew?

By a signed statement of how far it had come, kept where the fleet can't reach it. The fleet makes one at its start and
each hour in which the log grew, tells it to the server's own log, and makes one for whoever asks. Whoever has the
database and this key can rewrite the log and sign it again: only what was kept elsewhere shows that.
"""

import logging

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_wire import audit
from shoal_wire.audit import AuditCheckpoint, AuditHead
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.errors import WireError
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.audit import service
from shoal_fleet.audit.models import AuditCheckpointRow, AuditRow
from shoal_fleet.database import Sessions, writing
from shoal_fleet.kek.vault import Vault
from shoal_fleet.signing_keys import open_signing_key
from shoal_fleet.times import Clock

KEY_NAME = "audit"
"""Of its row among the fleet's private keys."""

INTERVAL_S = 3600.0

_log = logging.getLogger(__name__)


class AuditKey:
    """The key that signs checkpoints and nothing else."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.signer = KeySigner(key)
        self.verifier = key.public_key()
        self.public = public_text(key.public_key())

    @classmethod
    def load_or_create(cls, sessions: Sessions, *, vault: Vault, now: float) -> "AuditKey":
        """Read it; a new one is committed when this returns.

        Raises:
            BrokenState: its row doesn't open.
            Conflict: the wrapping key was changed since the vault was opened.
        """
        with sessions() as session, writing(session):
            return cls(open_signing_key(session, KEY_NAME, vault=vault, now=now))


class Checkpoints:
    """Makes them, and looks whether the log still agrees with the last one."""

    def __init__(self, sessions: Sessions, *, key: AuditKey, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._is_first = True
        self._trouble: str | None = None
        self.key = key

    def find_trouble(self) -> str | None:
        """What is wrong with the log, as `renew` last found it; None where it agrees."""
        return self._trouble

    def sign(self, head: AuditHead) -> bytes:
        """A checkpoint in its envelope."""
        return audit.seal_checkpoint(head, at=self._clock(), signer=self.key.signer)

    def renew(self) -> None:
        """Keep a new one where that is due. What is wrong with the log is said in the server's own log.

        A log that no longer agrees gets no new checkpoint, so that what was signed last stays there to be compared.
        """
        with self._sessions() as session, writing(session):
            newest = session.scalar(select(AuditCheckpointRow).order_by(AuditCheckpointRow.sequence.desc()).limit(1))
            self._trouble = None if newest is None else self._find_change(session, newest)
            if self._trouble is not None:
                _log.error("%s", self._trouble)
                return
            head, now = service.find_head(session), self._clock()
            is_due = newest is None or self._is_first or now - newest.at >= INTERVAL_S
            if is_due and head.sequence > (0 if newest is None else newest.sequence):
                session.add(AuditCheckpointRow(sequence=head.sequence, at=now, envelope=self.sign(head)))
                _log.info("audit log: checkpoint at entry %d, digest %s", head.sequence, head.digest)
        self._is_first = False

    def _find_change(self, session: Session, row: AuditCheckpointRow) -> str | None:
        try:
            checkpoint = self._open(row)
        except WireError as error:
            return f"audit log: the last checkpoint can't be trusted: {error}"
        found = session.scalar(select(AuditRow.digest).where(AuditRow.sequence == checkpoint.sequence))
        if found == checkpoint.digest:
            return None
        return (
            f"audit log: entry {checkpoint.sequence} was signed with the digest {checkpoint.digest}, found "
            f"{found or 'no such entry'}: the log was changed; compare it with the last export"
        )

    def _open(self, row: AuditCheckpointRow) -> AuditCheckpoint:
        what = f"audit checkpoint at entry {row.sequence}"
        return audit.open_checkpoint(row.envelope, self.key.verifier, what=what)
