"""Which devices would a rollout go to, and in which wave?"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from shoal_fleet.access.projects import project_of_release
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.revocation import check_assignable
from shoal_fleet.rollouts.choosing import check_agent_fits, choose_devices
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.rollouts.wave_devices import divide_into_waves


def preview(session: Session, wanted: RolloutStart, *, now: float) -> Sequence[Sequence[str]]:
    """Names of the devices of each wave, of the first one first; all in one where there are no waves.

    Raises: as `service.start`.
    """
    release = releases.find_release(session, name=wanted.release, version=wanted.version)
    check_assignable(session, release)
    project = project_of_release(session, release.name)
    chosen = choose_devices(session, wanted.devices, target=wanted.plan.target, project=project, now=now)
    check_agent_fits(session, release, chosen)
    waves = divide_into_waves(session, chosen, plan=wanted.plan, seed=release.manifest_sha256, now=now)
    count = max(1, len(wanted.plan.waves))
    return [[one.name for one in chosen if waves.get(one.id, 1) == number] for number in range(1, count + 1)]
