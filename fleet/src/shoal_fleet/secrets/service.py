"""Which secrets does a device have, and how does it come to another?

What is sealed is given to the device and shown to nobody: whoever lists secrets sees names and times.
"""

from collections.abc import Sequence

from shoal_wire.secret import SealedSecret
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Conflict, NotFound, Refused
from shoal_fleet.rollouts.desired import write_secrets
from shoal_fleet.secrets.models import DeviceSecret

MOST_SECRETS = 32
"""For one device: they travel in its desired document, which the broker bounds."""


def list_secrets(session: Session, device: Device) -> Sequence[DeviceSecret]:
    """The secrets of a device by name, without those that were removed."""
    rows = select(DeviceSecret).where(DeviceSecret.device_id == device.id, DeviceSecret.sealed.is_not(None))
    return session.scalars(rows.order_by(DeviceSecret.name)).all()


def next_counter(session: Session, device: Device, name: str) -> int:
    """The counter that the next value of that name is sealed under."""
    row = session.get(DeviceSecret, (device.id, name))
    return 1 + (row.counter if row else 0)


def put_secret(session: Session, device_name: str, secret: SealedSecret, *, now: float) -> DeviceSecret:
    """Keep a sealed secret and write the device's next desired document, which brings it there.

    Raises:
        NotFound: no such device.
        Refused: the device is revoked, or has too many secrets.
        Conflict: sealed under another counter than the next: somebody else changed it meanwhile.
    """
    with writing(session):
        device = devices.find_device(session, device_name)
        if device.revoked_at is not None:
            raise Refused(f"device {device.name!r}: is revoked, expected one that can still be configured")
        expected = next_counter(session, device, secret.name)
        if secret.counter != expected:
            raise Conflict(
                f"secret {secret.name} of device {device.name!r}: sealed under the counter {secret.counter}, expected "
                f"{expected}; set it again"
            )
        row = session.get(DeviceSecret, (device.id, secret.name))
        if row is None:
            row = DeviceSecret(device_id=device.id, name=secret.name)
            session.add(row)
        row.counter, row.sealed, row.changed_at = secret.counter, secret.sealed, now
        session.flush()
        if len(list_secrets(session, device)) > MOST_SECRETS:
            raise Refused(f"device {device.name!r}: has {MOST_SECRETS} secrets, which is the most; remove one first")
        _hand_on(session, device, now=now)
    return row


def remove_secret(session: Session, device_name: str, name: str, *, now: float) -> None:
    """Take a secret from a device: its next desired document doesn't have it.

    Raises:
        NotFound: no such device, or it has no such secret.
    """
    with writing(session):
        device = devices.find_device(session, device_name)
        row = session.get(DeviceSecret, (device.id, name))
        if row is None or row.sealed is None:
            raise NotFound(f"secret {name[:128]!r} of device {device.name!r}: there is none of that name")
        row.sealed, row.changed_at = None, now
        session.flush()
        _hand_on(session, device, now=now)


def _hand_on(session: Session, device: Device, *, now: float) -> None:
    secrets = tuple(
        SealedSecret(name=row.name, counter=row.counter, sealed=row.sealed)
        for row in list_secrets(session, device)
        if row.sealed is not None
    )
    write_secrets(session, device=device, secrets=secrets, now=now)
