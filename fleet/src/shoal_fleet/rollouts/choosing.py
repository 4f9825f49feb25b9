"""To which devices does an operator want a release to go, and can they take it?"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Refused
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.agent_fit import check_fits
from shoal_fleet.targeting.service import find_matching

ALL = "all"
"""Stands for every device that is neither revoked nor held."""


def choose_devices(
    session: Session, names: Sequence[str], *, target: str, project: str, now: float
) -> Sequence[Device]:
    """The devices that an operator means: by an expression, where `target` has one, else by ids or names, or all.

    Raises:
        NotFound: no such device.
        Refused: none, one that can't be given anything, or an expression that means nothing.
    """
    if target:
        chosen = list(find_matching(session, target, project=project, now=now))
    elif list(names) == [ALL]:
        there = [one for one in devices.list_devices(session) if one.revoked_at is None and one.held_at is None]
        chosen = [device for device in there if device.project == project]
    else:
        chosen = list({device.id: device for device in (devices.find_device(session, one) for one in names)}.values())
    revoked = [device.name for device in chosen if device.revoked_at is not None]
    if revoked:
        raise Refused(f"device {revoked[0]!r}: is revoked, expected one that can still be updated")
    held = [device.name for device in chosen if device.held_at is not None]
    if held:
        raise Refused(f"device {held[0]!r}: is held; look at `shoal device show`, then `shoal device release-hold`")
    strangers = [device for device in chosen if device.project != project]
    if strangers:
        raise Refused(
            f"device {strangers[0].name!r}: expected one of the release's project {project}, found one of "
            f"{strangers[0].project}"
        )
    if not chosen:
        raise Refused("rollout: expected at least one device, found none")
    return chosen


def check_agent_fits(session: Session, release: Release, chosen: Sequence[Device]) -> None:
    """Raises Refused: it is a release of the agent, and one of the devices can't take it."""
    agent = releases.read_manifest(session, release).agent
    if agent is not None:
        reported = [(device.name, devices.last_reported(device)) for device in chosen]
        check_fits(agent, reported, what=f"release {release.name} {release.version}")
