"""Can a device take a release of the agent? Rules only.

A device can that reports how it stands to such releases: its agent knows them, a package installed it, and the release
has a tree for its machine and Python. The device makes sure of all that again.
"""

from collections.abc import Iterable

from shoal_wire.agent_release import AgentPart
from shoal_wire.messages import Reported

from shoal_fleet.errors import Refused


def check_fits(agent: AgentPart, devices: Iterable[tuple[str, Reported | None]], *, what: str) -> None:
    """Make sure that all of these devices, by name with what they last reported, can take the agent.

    Raises:
        Refused: one can't. It names the first, and how many there are.
    """
    unfit = [(name, reason) for name, reported in devices if (reason := find_obstacle(agent, reported)) is not None]
    if unfit:
        name, reason = unfit[0]
        others = f" ({len(unfit) - 1} other devices can't take it either)" if unfit[1:] else ""
        raise Refused(f"{what}: device {name!r}: {reason}{others}")


def find_obstacle(agent: AgentPart, reported: Reported | None) -> str | None:
    """Why a device can't take the agent; None where it can."""
    if reported is None:
        return "has not reported yet, so nobody knows what it runs on"
    if reported.agent is None:
        return f"its agent {reported.agent_version} can't update itself yet; install a newer package there"
    about = reported.agent
    if not about.can_update:
        return about.why_not or "its agent says that it can't update itself"
    if agent.tree_for(machine=about.machine, python=about.python) is None:
        made = ", ".join(f"{tree.machine} with Python {tree.python}" for tree in agent.trees)
        return f"is {about.machine} with Python {about.python}; the release is made for {made}"
    if not agent.oldest_state <= about.state_format <= agent.newest_state:
        return (
            f"its state folder has format {about.state_format}; the release reads {agent.oldest_state} to "
            f"{agent.newest_state}"
        )
    return None
