"""How are devices labelled?"""

import re
from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices.service import find_device
from shoal_fleet.errors import Refused
from shoal_fleet.labels.models import DeviceLabel

KEY = r"^[a-z][a-z0-9_]{0,62}$"
"""As a name in an expression: labels.site."""
MAX_VALUE = 200
MAX_LABELS = 64

Changes = Mapping[str, str | None]
"""Value by key; None: the label is removed."""


def change_labels(session: Session, id_or_name: str, changes: Changes, *, actor: str, now: float) -> dict[str, str]:
    """Set some of a device's labels and remove others; returns all that it has then.

    Raises:
        NotFound: no such device.
        Refused: a key or value that can't be one, or too many labels.
    """
    check_labels(changes)
    with writing(session):
        device = find_device(session, id_or_name)
        before = labels_of(session, device.id)
        put_labels(session, device.id, changes)
        after = labels_of(session, device.id)
        if len(after) > MAX_LABELS:
            raise Refused(f"device {device.name!r}: expected at most {MAX_LABELS} labels, found {len(after)}")
        changed = {key: after.get(key) for key in changes if after.get(key) != before.get(key)}
        if changed:
            detail = {"labels": changed}
            audit.append(session, actor=actor, action="device.labelled", subject=device.id, detail=detail, now=now)
    return after


def check_labels(changes: Changes) -> None:
    """Raises Refused: a key or a value that can't be one, or too many."""
    if len(changes) > MAX_LABELS:
        raise Refused(f"labels: expected at most {MAX_LABELS}, found {len(changes)}")
    for key, value in changes.items():
        if not re.fullmatch(KEY, key):
            raise Refused(f"label {key[:80]!r}: expected a small letter, then at most 62 small letters, digits and _")
        if value is not None and not (len(value) <= MAX_VALUE and value.isprintable()):
            raise Refused(f"label {key}: expected at most {MAX_VALUE} printable characters, found {value[:80]!r}")


def put_labels(session: Session, device_id: str, changes: Changes) -> None:
    """Set and remove, in the caller's transaction."""
    rows = select(DeviceLabel).where(DeviceLabel.device_id == device_id, DeviceLabel.key.in_(changes))
    there = {row.key: row for row in session.scalars(rows)}
    for key, value in changes.items():
        row = there.get(key)
        if value is None:
            if row is not None:
                session.delete(row)
        elif row is None:
            session.add(DeviceLabel(device_id=device_id, key=key, value=value))
        else:
            row.value = value
    session.flush()


def labels_of(session: Session, device_id: str) -> dict[str, str]:
    """All labels of a device, by key."""
    rows = select(DeviceLabel).where(DeviceLabel.device_id == device_id).order_by(DeviceLabel.key)
    return {row.key: row.value for row in session.scalars(rows)}


def all_labels(session: Session) -> Mapping[str, dict[str, str]]:
    """Labels by device."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in session.scalars(select(DeviceLabel).order_by(DeviceLabel.device_id, DeviceLabel.key)):
        found[row.device_id][row.key] = row.value
    return found


def move_labels(session: Session, *, old: str, new: str) -> None:
    """Give the labels of a device to the one that takes its place, which has none; in the caller's transaction."""
    labels = labels_of(session, old)
    session.execute(delete(DeviceLabel).where(DeviceLabel.device_id == old))
    put_labels(session, new, labels)
