"""What should a device run, all models together?

A device has one desired document. A new one takes the place of the old in the database before it is published, with
a generation above every one that the device may have seen.
"""

from shoal_wire.encoding import decode, encode
from shoal_wire.messages import Assignment, Desired
from shoal_wire.secret import SealedSecret
from sqlalchemy.orm import Session

from shoal_fleet.broker.configuration import MAX_PACKET_BYTES
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Refused
from shoal_fleet.rollouts.machine import Order, next_order
from shoal_fleet.rollouts.models import DesiredRow

MAX_DESIRED_BYTES = (MAX_PACKET_BYTES - 4096) * 3 // 4
"""The envelope around it is base64 with a signature, and the broker cuts off who sends a longer packet."""


def write_desired(
    session: Session, *, device: Device, release: str, assignment: Assignment | None, now: float
) -> Order:
    """Make a device's next desired document, in the caller's transaction. It waits there to be published.

    What the last document says of other releases and of secrets stays; what it says of `release` becomes `assignment`,
    or goes.

    Raises:
        Refused: the document would be longer than the broker takes.
    """
    row = session.get(DesiredRow, device.id)
    last = _last(row)
    kept = [one for one in (last.assignments if last else ()) if one.release != release]
    assignments = (*kept, *([] if assignment is None else [assignment]))
    return _write(
        session,
        row,
        device=device,
        assignments=assignments,
        secrets=last.secrets if last else (),
        now=now,
        with_what=f"the release {release}",
        too_many="is assigned too many files",
    )


def write_secrets(session: Session, *, device: Device, secrets: tuple[SealedSecret, ...], now: float) -> Order:
    """The same with other secrets: what the last document says of releases stays.

    Raises:
        Refused: the document would be longer than the broker takes.
    """
    row = session.get(DesiredRow, device.id)
    last = _last(row)
    return _write(
        session,
        row,
        device=device,
        assignments=last.assignments if last else (),
        secrets=secrets,
        now=now,
        with_what="these secrets",
        too_many="has too many secrets",
    )


def _write(
    session: Session,
    row: DesiredRow | None,
    *,
    device: Device,
    assignments: tuple[Assignment, ...],
    secrets: tuple[SealedSecret, ...],
    now: float,
    with_what: str,
    too_many: str,
) -> Order:
    order = next_order(
        issued=None if row is None else (row.epoch, row.generation),
        reported=(device.reported_epoch, device.reported_generation),
    )
    desired = Desired(
        device=device.id,
        epoch=order[0],
        generation=order[1],
        issued_at=now,
        assignments=assignments,
        secrets=secrets,
    )
    document = encode(desired)
    if len(document) > MAX_DESIRED_BYTES:
        raise Refused(
            f"desired document of device {device.name!r}: {len(document)} bytes with {with_what}, expected at most "
            f"{MAX_DESIRED_BYTES}: the device {too_many}"
        )
    if row is None:
        row = DesiredRow(device_id=device.id)
        session.add(row)
    row.epoch, row.generation = order
    row.document, row.published_at = document, None
    return order


def _last(row: DesiredRow | None) -> Desired | None:
    return None if row is None else decode(row.document, Desired, what=f"desired document of device {row.device_id}")
