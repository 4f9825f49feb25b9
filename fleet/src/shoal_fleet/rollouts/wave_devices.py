"""Which of the chosen devices are in which wave, by what the fleet knows of them?"""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Refused
from shoal_fleet.labels.service import labels_of
from shoal_fleet.rollouts.plan import Plan, wrong_wave
from shoal_fleet.rollouts.waves import Candidate, divide, order
from shoal_fleet.targeting.service import select_matching

SITE = "site"
"""Label by which sites are told apart."""


def divide_into_waves(
    session: Session, chosen: Sequence[Device], *, plan: Plan, seed: str, now: float
) -> Mapping[str, int]:
    """Number of the wave of each device, by its id; empty for a plan without waves. The same seed divides alike.

    Raises:
        Refused: waves or their expressions mean nothing.
    """
    if not plan.waves:
        return {}
    problem = wrong_wave(plan.waves)
    if problem is not None:
        raise Refused(problem)
    meant = {
        number: select_matching(session, wave.where, now=now)
        for number, wave in enumerate(plan.waves, start=1)
        if wave.where is not None
    }
    candidates = [
        Candidate(device.id, labels_of(session, device.id).get(SITE, ""), device.profile) for device in chosen
    ]
    return divide(order(candidates, seed=seed), plan.waves, meant=meant)
