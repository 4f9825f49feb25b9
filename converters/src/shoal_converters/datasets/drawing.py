"""Which part of a set is used, where a recipe wants fewer items than there are?"""

from collections.abc import Sequence

import numpy as np

from shoal_converters.datasets.found import Found


def draw(found: Sequence[Found], *, limit: int | None, seed: int) -> list[Found]:
    """At most `limit` items, in the order that they had; the same for the same seed.

    Each stratum keeps its share, to the nearest whole number: what is left over after rounding down goes to the strata
    that lost most by it (Hamilton's method), by lot where they lost the same.
    """
    if limit is None or len(found) <= limit:
        return list(found)
    lot = np.random.default_rng(seed)
    strata: dict[str, list[int]] = {}
    for place in lot.permutation(len(found)).tolist():
        strata.setdefault(found[place].stratum, []).append(place)
    shares = {name: divmod(limit * len(places), len(found)) for name, places in strata.items()}
    left = limit - sum(whole for whole, _ in shares.values())
    # Strata are in the order of the lot, which sorting by remainder keeps.
    more = set(sorted(shares, key=lambda name: -shares[name][1])[:left])
    drawn = [place for name, places in strata.items() for place in places[: shares[name][0] + (name in more)]]
    return [found[place] for place in sorted(drawn)]
