"""How does someone outside notice that the end of the log was cut off, or all of it written anew?

By a signed statement of how far it had come, kept where the fleet can't reach it. The fleet makes one at its start and
each hour in which the log grew, tells it to the server's own log, and makes one for whoever asks. Whoever has the
database and this key can rewrite the log and sign it again: only what was kept elsewhere shows that.
"""

import logging
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from shoal_wire import audit
from shoal_wire.audit import AuditCheckpoint, AuditHead
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.errors import WireError
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.audit import service
from shoal_fleet.audit.models import AuditCheckpointRow, AuditRow
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.pki.files import make_private_folder, write_whole
from shoal_fleet.times import Clock

KEY_FILE = "audit.pem"
"""Among the fleet's online keys."""

INTERVAL_S = 3600.0

_log = logging.getLogger(__name__)


class AuditKey:
    """The key that signs checkpoints and nothing else."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.signer = KeySigner(key)
        self.verifier = key.public_key()
        self.public = public_text(key.public_key())

    @classmethod
    def load_or_create(cls, folder: Path) -> "AuditKey":
        """Read it from the folder of the online keys; a new one is on disk when this returns.

        Raises:
            BrokenState: the file holds no Ed25519 key.
        """
        make_private_folder(folder)
        path = folder / KEY_FILE
        if not path.exists():
            made = Ed25519PrivateKey.generate()
            write_whole(path, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError) as error:
            raise BrokenState(f"{path}: expected a private key in PEM, found none ({error})") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise BrokenState(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
        return cls(key)


class Checkpoints:
    """Makes them, and looks whether the log still agrees with the last one."""

    def __init__(self, sessions: Sessions, *, key: AuditKey, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._is_first = True
        self.key = key

    def sign(self, head: AuditHead) -> bytes:
        """A checkpoint in its envelope."""
        return audit.seal_checkpoint(head, at=self._clock(), signer=self.key.signer)

    def renew(self) -> None:
        """Keep a new one where that is due. What is wrong with the log is said in the server's own log.

        A log that no longer agrees gets no new checkpoint, so that what was signed last stays there to be compared.
        """
        with self._sessions() as session, writing(session):
            newest = session.scalar(select(AuditCheckpointRow).order_by(AuditCheckpointRow.sequence.desc()).limit(1))
            if newest is not None and not self._agrees(session, newest):
                return
            head, now = service.find_head(session), self._clock()
            is_due = newest is None or self._is_first or now - newest.at >= INTERVAL_S
            if is_due and head.sequence > (0 if newest is None else newest.sequence):
                session.add(AuditCheckpointRow(sequence=head.sequence, at=now, envelope=self.sign(head)))
                _log.info("audit log: checkpoint at entry %d, digest %s", head.sequence, head.digest)
        self._is_first = False

    def _agrees(self, session: Session, row: AuditCheckpointRow) -> bool:
        try:
            checkpoint = self._open(row)
        except WireError as error:
            _log.error("audit log: the last checkpoint can't be trusted: %s", error)
            return False
        found = session.scalar(select(AuditRow.digest).where(AuditRow.sequence == checkpoint.sequence))
        if found != checkpoint.digest:
            _log.error(
                "audit log: entry %d was signed with the digest %s, found %s: the log was changed; compare it with the "
                "last export",
                checkpoint.sequence,
                checkpoint.digest,
                found or "no such entry",
            )
        return found == checkpoint.digest

    def _open(self, row: AuditCheckpointRow) -> AuditCheckpoint:
        what = f"audit checkpoint at entry {row.sequence}"
        return audit.open_checkpoint(row.envelope, self.key.verifier, what=what)
