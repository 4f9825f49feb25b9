"""What does the daemon tell fleet and updater of the agent itself, and how does it make place for another?"""

import logging
import platform
import signal
import sys
import time

from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.errors import WireError
from shoal_wire.messages import AgentReport

from shoal_agent.daemon.holdings import Holdings
from shoal_agent.daemon.reporting import Reporter
from shoal_agent.daemon.serving import FrontKeeper, Setting
from shoal_agent.files import Files
from shoal_agent.own_trees import NOT_INSTALLED, STATE_FORMAT, Launch, OwnTrees
from shoal_agent.slots import HeldRelease
from shoal_agent.updater_messages import AgentHealth, Keys

REPORT_S = 30.0
"""Between two reports of an agent on trial: an acknowledgement may have been lost."""

_LOG = logging.getLogger(__name__)


def describe_agent(launch: Launch, *, files: Files) -> AgentReport:
    """How this agent stands to releases of the agent."""
    own = OwnTrees(launch, files=files) if launch.folder else None
    return AgentReport(
        machine=platform.machine(),
        python="{}.{}".format(*sys.version_info[:2]),
        state_format=STATE_FORMAT,
        can_update=own is not None,
        why_not="" if own else NOT_INSTALLED,
        is_on_trial=own is not None and own.is_on_trial(),
    )


class OwnAgent:
    """This start of the agent, as its updater asks for it."""

    def __init__(self, setting: Setting, *, reporter: Reporter, holdings: Holdings, front: FrontKeeper) -> None:
        """Does nothing yet."""
        self._setting = setting
        self._reporter = reporter
        self._holdings = holdings
        self._front = front
        self._reported_at = time.monotonic()

    def open(self, held: HeldRelease) -> Keys:
        """The updater unpacks the agent itself, so it gets the keys of that, and of nothing else."""
        if held.reference.release != AGENT_RELEASE:
            return Keys({}, reason=f"{held.reference.release} is no release of the agent")
        try:
            return Keys(self._setting.open(held).content_keys)
        except WireError as error:
            return Keys({}, reason=str(error)[:4000] or "its grants don't open")

    def health(self) -> AgentHealth:
        """What this start has come to. As long as the fleet hasn't acknowledged a report, it is sent again."""
        is_reported = self._reporter.is_acknowledged
        if not is_reported and time.monotonic() - self._reported_at > REPORT_S:
            self._reported_at = time.monotonic()
            self._reporter.touch()
        current = {name: slot.current.reference for name, slot in self._holdings.slots.slots.items() if slot.current}
        serving = {name: serving.reference for name, serving in self._front.serving.items()}
        return AgentHealth(is_reported, tuple(sorted(name for name in current if current[name] == serving.get(name))))

    def restart(self) -> None:
        """End as if the service manager had said so: it starts the agent anew, and its launcher says which."""
        _LOG.info("ends, to be started anew")
        signal.raise_signal(signal.SIGTERM)
