"""How does a release take the place of the one that serves, and no item is lost by it?

Beside: load, warm, flip, and let go of the old one later; there is always one that answers. Instead: the old one
ends its runs and goes, items wait where they are, and the new one is loaded within a bounded time, or else the old one
again.
`admission.choose_swap` says which.
"""

from collections.abc import Callable, Sequence

from shoal_agent.configuration import SwapPolicy
from shoal_agent.front.admission import NoRoom, Peak, Swap, choose_swap
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.loading import LoadFailure
from shoal_agent.front.slot import LoadedRelease, ServingSlot
from shoal_agent.front.worker import LOAD_TIMEOUT_S
from shoal_agent.front_messages import Load

GAP_S = 60.0
"""Items wait that long at most for a release to load before the one that served is loaded again."""

Loader = Callable[[Load, float], LoadedRelease]
"""Loads a release within some seconds, or raises LoadFailure."""


def swap(
    slot: ServingSlot,
    order: Load,
    *,
    load: Loader,
    needed: Sequence[Peak],
    policy: SwapPolicy,
    on_gap: Callable[[LoadedRelease], None],
    on_return: Callable[[LoadedRelease], None],
) -> None:
    """Have a release serve that isn't loaded yet, or isn't loaded in this way.

    `on_gap`: this release serves no more, and the new one not yet. `on_return`: it had to be loaded again.

    Raises:
        LoadFailure: it can't be loaded, and what served before serves again, if it can.
    """
    current = slot.current()
    if current is not None:
        current.rest()
    try:
        way = choose_swap(
            needed,
            room=read_room(),
            idle_bytes=slot.idle_bytes(),
            serving_bytes=current.held_bytes() if current else None,
            policy=policy,
        )
    except NoRoom as error:
        raise LoadFailure(str(error)) from None
    if way is not Swap.BESIDE:
        slot.unload(keep=(current.reference.manifest_sha256,) if current else ())
    if way is not Swap.INSTEAD or current is None:
        replaced = slot.flip(load(order, LOAD_TIMEOUT_S))
        if replaced is not None:
            replaced.close()
        return
    slot.withdraw(current.reference.manifest_sha256)
    on_gap(current)
    current.close()
    try:
        slot.flip(load(order, GAP_S))
    except LoadFailure as error:
        try:
            again = load(current.order, LOAD_TIMEOUT_S)
        except LoadFailure as second:
            raise LoadFailure(f"{error}; and the release that served can't be loaded again: {second}") from None
        slot.flip(again)
        on_return(again)
        raise
