"""How does a device, or do the releases of a name, get into another project?

What is under way must have ended, so that no rollout is half in one project and half in the other. Nothing gets where
fewer approvals are needed than before: that would be a way around them.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.models import ReleaseName
from shoal_fleet.access.projects import check_project
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices.models import Device
from shoal_fleet.devices.service import find_device
from shoal_fleet.errors import Conflict, NotFound
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.machine import OPEN, UNFINISHED
from shoal_fleet.rollouts.models import Rollout, RolloutDevice
from shoal_fleet.rollouts.policy import find_approvals_needed


def move_device(session: Session, id_or_name: str, *, project: str, actor: str, now: float) -> Device:
    """Move a device. It goes on with what it runs; a board that is to take its place will be in the new project, too.

    Raises:
        NotFound: no such device, or no such project.
        Conflict: it is there already, a rollout of it is under way, or fewer approvals are needed there.
    """
    with writing(session):
        device = find_device(session, id_or_name)
        label = f"device {device.name!r}"
        _check_move(session, label, present=device.project, wanted=project)
        under_way = session.scalar(
            select(RolloutDevice.rollout_id)
            .where(RolloutDevice.device_id == device.id, RolloutDevice.state.in_(OPEN))
            .limit(1)
        )
        _check_idle(label, under_way)
        detail = {"from": device.project, "to": project}
        device.project = project
        audit.append(session, actor=actor, action="device.moved", subject=device.id, detail=detail, now=now)
    return device


def move_releases(session: Session, name: str, *, project: str, actor: str, now: float) -> None:
    """Move all releases of a name, and with them their rollouts. Devices that run one go on with it.

    Raises:
        NotFound: no release of that name, or no such project.
        Conflict: they are there already, a rollout is under way, or fewer approvals are needed there.
    """
    with writing(session):
        row = session.get(ReleaseName, name)
        if row is None or session.scalar(select(Release.id).where(Release.name == name).limit(1)) is None:
            raise NotFound(f"release {name[:80]!r}: not of this fleet")
        label = f"release {name!r}"
        _check_move(session, label, present=row.project, wanted=project)
        under_way = session.scalar(
            select(Rollout.id).where(Rollout.release == name, Rollout.state.in_(UNFINISHED)).limit(1)
        )
        _check_idle(label, under_way)
        detail = {"from": row.project, "to": project}
        row.project = project
        audit.append(session, actor=actor, action="release.moved", subject=name, detail=detail, now=now)


def _check_move(session: Session, label: str, *, present: str, wanted: str) -> None:
    check_project(session, wanted)
    if present == wanted:
        raise Conflict(f"{label}: is in project {wanted!r} already")
    needed, found = (find_approvals_needed(session, project) for project in (present, wanted))
    if found < needed:
        raise Conflict(
            f"{label}: rollouts in {present!r} need {needed} approvals, in {wanted!r} {found}; raise that first: "
            f"shoal rollout policy --project {wanted} --approvals {needed}"
        )


def _check_idle(label: str, rollout_id: int | None) -> None:
    if rollout_id is not None:
        raise Conflict(f"{label}: rollout {rollout_id} is under way; wait for its end, or abort it")
