"""What happens to each message of a device?

One thread calls this. Every message is verified, then stored in one transaction, then answered; a message that is
refused is counted, with the reason, and changes nothing else.
"""

import logging
from collections.abc import Callable, Mapping

from shoal_wire import envelope, topics
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import Signer
from shoal_wire.errors import WireError
from shoal_wire.messages import Ack, Presence
from shoal_wire.topics import Down, Up
from sqlalchemy.orm import Session

from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import FleetError, NotAllowed, NotFound
from shoal_fleet.kek.vault import Vault
from shoal_fleet.messaging.inbox import Message
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.publication import Publisher
from shoal_fleet.telemetry import service as telemetry
from shoal_fleet.times import Clock

MAX_PRESENCE_BYTES = 4096

_log = logging.getLogger(__name__)


class Dispatcher:
    """Brings each message to the feature that it is for."""

    def __init__(self, sessions: Sessions, *, publisher: Publisher, signer: Signer, vault: Vault, clock: Clock) -> None:
        """`signer` signs acknowledgements, `vault` opens content keys."""
        self._sessions = sessions
        self._publisher = publisher
        self._signer = signer
        self._vault = vault
        self._clock = clock
        self._handlers: Mapping[Up, Callable[[str, bytes], None]] = {
            Up.PRESENCE: self._record_presence,
            Up.REPORTED: self._record_reported,
            Up.BATCH: self._commit_batch,
        }

    def dispatch(self, message: Message) -> None:
        """Do what a message asks for. What it wants published waits in the database afterwards, save for its ack.

        Raises:
            SQLAlchemyError: the database failed; nothing was stored.
        """
        device_id, channel = message.topic
        assert isinstance(channel, Up)
        try:
            self._handlers[channel](device_id, message.payload)
        except (WireError, FleetError) as error:
            self._count_refused(device_id, channel, str(error))

    def _record_presence(self, device_id: str, raw: bytes) -> None:
        presence = decode(raw, Presence, what=f"presence of device {device_id}", limit_bytes=MAX_PRESENCE_BYTES)
        with self._sessions() as session, writing(session):
            devices.record_presence(session, device_id=device_id, is_online=presence.online)

    def _record_reported(self, device_id: str, raw: bytes) -> None:
        now = self._clock()
        with self._sessions() as session, writing(session):
            devices.record_reported(session, device_id=device_id, raw=raw, now=now)
            device = devices.find_device(session, device_id)
            rollouts.follow(session, device=device, vault=self._vault, now=now)
            reported = devices.last_reported(device)
            is_on_trial = reported is not None and reported.agent is not None and reported.agent.is_on_trial
            ack = telemetry.acknowledge_report(session, reported) if reported and is_on_trial else None
        if ack is not None:
            self._publish_ack(ack)

    def _commit_batch(self, device_id: str, raw: bytes) -> None:
        with self._sessions() as session:
            device = _find_speaker(session, device_id)
            batch = telemetry.open_batch(raw, device_id=device_id, identity_key=devices.identity_key(device))
        with self._sessions() as session:
            ack = telemetry.commit_batch(session, batch, now=self._clock())
        self._publish_ack(ack)

    def _publish_ack(self, ack: Ack) -> None:
        payload = envelope.seal(encode(ack), envelope.ACK, self._signer)
        self._publisher.publish(topics.down(ack.device, Down.ACK), payload, retain=False, receipt=None)

    def _count_refused(self, device_id: str, channel: Up, reason: str) -> None:
        with self._sessions() as session, writing(session):
            row = session.get(RefusedMessages, (device_id, channel.value))
            if row is None:
                row = RefusedMessages(device_id=device_id, channel=channel.value, count=0)
                session.add(row)
            row.count += 1
            row.last_reason, row.last_at = reason, self._clock()
        if row.count & (row.count - 1) == 0:  # the 1st, 2nd, 4th, 8th …: who sends nonsense mustn't fill the log
            _log.warning("refused message %d of device %s on %s: %s", row.count, device_id, channel.value, reason)


def _find_speaker(session: Session, device_id: str) -> Device:
    device = session.get(Device, device_id)
    if device is None:
        raise NotFound(f"device {device_id!r}: not of this fleet")
    if device.revoked_at is not None:
        raise NotAllowed(f"device {device.name!r} ({device_id}): is revoked")
    return device
