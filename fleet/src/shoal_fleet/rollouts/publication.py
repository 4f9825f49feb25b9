"""Which desired documents does the broker not have yet?

A document is written to the database first and published from there, so it can't be lost: until the broker has
confirmed it, it is published again at each connection. Not safe for threads: one worker owns this.
"""

from typing import NamedTuple, Protocol

from msgspec.structs import replace
from shoal_wire import envelope, topics
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import Signer
from shoal_wire.messages import Desired
from shoal_wire.topics import Down
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import Device
from shoal_fleet.rollouts.machine import Order
from shoal_fleet.rollouts.models import DesiredRow
from shoal_fleet.times import Clock

AHEAD_S = 3600.0
"""By how much a document may be dated ahead of this machine's clock."""


class Receipt(NamedTuple):
    """Names a desired document that the broker has confirmed."""

    device_id: str
    order: Order


class Publisher(Protocol):
    """A way to the broker."""

    def publish(self, topic: str, payload: bytes, *, retain: bool, receipt: Receipt | None) -> bool:
        """Send at least once; False where there is no connection. The receipt comes back once the broker has it."""


class Publication:
    """Brings desired documents to the broker."""

    def __init__(self, sessions: Sessions, *, publisher: Publisher, signer: Signer, clock: Clock) -> None:
        self._sessions = sessions
        self._publisher = publisher
        self._signer = signer
        self._clock = clock
        self._under_way: dict[str, Order] = {}
        self._signed_by = signer.key_id

    def publish_all(self) -> None:
        """At a new connection: the document of every device, as the broker may have lost what it once confirmed."""
        self._under_way.clear()
        self._signed_by = self._signer.key_id
        with self._sessions() as session:
            self._publish(_documents(session, pending_only=False))

    def publish_pending(self) -> None:
        """What the broker hasn't confirmed and isn't on its way; everything where the signing key was replaced."""
        if self._signer.key_id != self._signed_by:
            self.publish_all()
            return
        with self._sessions() as session:
            self._publish(_documents(session, pending_only=True))

    def confirm(self, receipt: Receipt) -> None:
        """Note that the broker has a document. One that was replaced in the meantime stays pending."""
        if self._under_way.get(receipt.device_id) == receipt.order:
            del self._under_way[receipt.device_id]
        epoch, generation = receipt.order
        with self._sessions() as session, writing(session):
            session.execute(
                update(DesiredRow)
                .where(
                    DesiredRow.device_id == receipt.device_id,
                    DesiredRow.epoch == epoch,
                    DesiredRow.generation == generation,
                )
                .values(published_at=self._clock())
            )

    def _publish(self, rows: list[DesiredRow]) -> None:
        for row in rows:
            receipt = Receipt(row.device_id, (row.epoch, row.generation))
            if self._under_way.get(row.device_id) == receipt.order:
                continue
            payload = envelope.seal(_date(row.document, now=self._clock()), envelope.DESIRED, self._signer)
            topic = topics.down(row.device_id, Down.DESIRED)
            if not self._publisher.publish(topic, payload, retain=True, receipt=receipt):
                return
            self._under_way[row.device_id] = receipt.order


def _date(document: bytes, *, now: float) -> bytes:
    """The document; one that a clock dated ahead is dated anew, or boards would judge expiry by that time for good."""
    desired = decode(document, Desired, what="desired document")
    return document if desired.issued_at <= now + AHEAD_S else encode(replace(desired, issued_at=now))


def _documents(session: Session, *, pending_only: bool) -> list[DesiredRow]:
    is_free = (Device.revoked_at.is_(None), Device.held_at.is_(None))
    rows = select(DesiredRow).join(Device).where(*is_free).order_by(DesiredRow.device_id)
    return list(session.scalars(rows.where(DesiredRow.published_at.is_(None)) if pending_only else rows))
