"""Which devices are in which wave?

Within the same site and profile the order is by a hash, so that nobody is always first, and sites and profiles take
turns in proportion to their size: a tenth of the devices is about a tenth of each, and no wave takes a whole site.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from shoal_fleet.rollouts.plan import Wave


class Candidate(NamedTuple):
    """A device of a rollout."""

    id: str
    site: str
    profile: str


def order(candidates: Sequence[Candidate], *, seed: str) -> list[str]:
    """Ids of all of them, in the order in which waves take them. The same seed gives the same order."""
    strata: Mapping[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        strata[candidate.site, candidate.profile].append(candidate)
    ranked = []
    for members in strata.values():
        members.sort(key=lambda one: _hash(seed, one.id))
        ranked += [((place + 0.5) / len(members), _hash(seed, one.id), one.id) for place, one in enumerate(members)]
    return [identity for _, _, identity in sorted(ranked)]


def divide(ordered: Sequence[str], waves: Sequence[Wave], *, meant: Mapping[int, Collection[str]]) -> dict[str, int]:
    """Number of the wave of each device; waves count from 1.

    Args:
        ordered: ids, as `order` gives them.
        meant: by the number of a wave with `where`: ids that its expression means. A device that several mean is in
            the first of them.
    """
    found: dict[str, int] = {}
    for number, ids in sorted(meant.items()):
        found |= {identity: number for identity in ordered if identity in ids and identity not in found}
    rest = [identity for identity in ordered if identity not in found]
    for number, wave in enumerate(waves, start=1):
        if number == len(waves):
            taken = len(rest)
        elif wave.count is not None:
            taken = wave.count
        elif wave.percent is not None:
            taken = math.ceil(len(ordered) * wave.percent / 100)
        else:
            taken = 0
        found |= dict.fromkeys(rest[:taken], number)
        rest = rest[taken:]
    return found


def _hash(seed: str, identity: str) -> str:
    return hashlib.sha256(f"{seed}/{identity}".encode()).hexdigest()
