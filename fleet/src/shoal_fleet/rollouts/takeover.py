"""How does a board that takes another's place get what that one was assigned?"""

import logging

from shoal_wire.encoding import decode
from shoal_wire.errors import WireError
from shoal_wire.messages import Assignment, Desired
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.errors import FleetError, NotFound
from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.assignment import assign, open_release
from shoal_fleet.rollouts.desired import write_desired
from shoal_fleet.rollouts.models import DesiredRow

_log = logging.getLogger(__name__)


def take_over(session: Session, *, old: Device, new: Device, vault: Vault, now: float) -> None:
    """Assign to a new device what an old one's last document names, with keys sealed anew, in the caller's transaction.

    A release that can't be opened is left out and logged: the board must come in all the same. Secrets of the
    configuration were sealed to the old board and can't move.
    """
    row = session.get(DesiredRow, old.id)
    if row is None:
        return
    document = decode(row.document, Desired, what=f"desired document of device {old.id}")
    for assignment in document.assignments:
        try:
            opened = open_release(session, _find_release(session, assignment), vault=vault)
            sealed = assign(session, opened, device=new, probation=assignment.probation)
            write_desired(session, device=new, release=assignment.release, assignment=sealed, now=now)
        except (FleetError, WireError) as error:
            _log.error("device %s takes over %s unassigned: %s", new.id, assignment.release, error)


def _find_release(session: Session, assignment: Assignment) -> Release:
    release = session.scalar(select(Release).where(Release.manifest_sha256 == assignment.manifest_sha256))
    if release is None:
        raise NotFound(f"release {assignment.release} {assignment.version}: not of this fleet")
    return release
