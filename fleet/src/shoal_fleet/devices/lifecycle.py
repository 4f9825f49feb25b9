"""What may an operator decide about a device that is there: let it go on, call it otherwise, take it out of use?"""

import re
from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices.models import Device
from shoal_fleet.devices.service import find_active, find_device, shut_out
from shoal_fleet.errors import Conflict, Refused
from shoal_fleet.rollouts.models import DesiredRow
from shoal_fleet.secrets.models import DeviceSecret

NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$"
"""What a device may be called."""


def release_hold(session: Session, id_or_name: str, *, actor: str, now: float) -> Device:
    """Let a held device get new documents again. If two boards still speak with its keys, it is soon held again.

    Raises:
        NotFound: no such device.
        Conflict: it isn't held, or it is revoked.
    """
    with writing(session):
        device = _find_in_use(session, id_or_name)
        if device.held_at is None:
            raise Conflict(f"device {device.name!r} ({device.id}): isn't held, expected one that is")
        device.held_at = device.held_reason = device.lineage = None
        audit.append(session, actor=actor, action="device.released", subject=device.id, detail={}, now=now)
    return device


def rename(session: Session, id_or_name: str, *, name: str, actor: str, now: float) -> Device:
    """Call a device otherwise. Its id, by which board and broker know it, stays.

    Raises:
        NotFound: no such device.
        Refused: not a name.
        Conflict: another device has it, or the device is revoked.
    """
    if not re.fullmatch(NAME, name):
        raise Refused(f"device name {name[:120]!r}: expected at most 100 letters, digits, blanks and . _ -")
    with writing(session):
        device = _find_in_use(session, id_or_name)
        other = find_active(session, name=name)
        if other is not None and other.id != device.id:
            raise Conflict(f"device name {name!r}: is that of device {other.id}; take another name")
        detail = {"from": device.name, "to": name}
        device.name = name
        audit.append(session, actor=actor, action="device.renamed", subject=device.id, detail=detail, now=now)
    return device


def decommission(session: Session, id_or_name: str, *, actor: str, now: float) -> Device:
    """Take a device out of use: it is shut out, and what only a device in use needs goes. Its history stays.

    Whoever calls this makes revocation list and access rules anew, and has the broker forget what it retains.

    Raises:
        NotFound: no such device.
        Conflict: that was done already.
    """
    with writing(session):
        device = find_device(session, id_or_name)
        if device.decommissioned_at is not None:
            raise Conflict(f"device {device.name!r} ({device.id}): was taken out of use already")
        if device.revoked_at is None:
            shut_out(session, device, now=now)
        device.decommissioned_at = now
        device.held_at = device.held_reason = device.lineage = None
        session.execute(delete(DesiredRow).where(DesiredRow.device_id == device.id))
        session.execute(update(DeviceSecret).where(DeviceSecret.device_id == device.id).values(sealed=None))
        audit.append(session, actor=actor, action="device.decommissioned", subject=device.id, detail={}, now=now)
    return device


def decommissioned_since(session: Session, since: float) -> Sequence[str]:
    """Ids of the devices that were taken out of use since then."""
    return session.scalars(select(Device.id).where(Device.decommissioned_at >= since).order_by(Device.id)).all()


def _find_in_use(session: Session, id_or_name: str) -> Device:
    device = find_device(session, id_or_name)
    if device.revoked_at is not None:
        raise Conflict(f"device {device.name!r} ({device.id}): is revoked, expected one that is in use")
    return device
