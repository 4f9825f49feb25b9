"""What can go wrong in tuning that its user must hear about?

AgentError (shoal_agent.errors)
└── TuningFailed    nothing was chosen; the message says why
"""

from shoal_agent.errors import AgentError


class TuningFailed(AgentError):
    """No release to tune, no candidate that runs, or none that answers right."""
