"""What can go wrong in the agent that its user, or the service that starts it, must treat differently?

AgentError
├── WrongConfiguration   the file or the environment: somebody must correct it
├── NotEnrolled          this board belongs to no fleet yet: `shoal-agent enrol`
├── EnrolmentRefused     the fleet, or this board's own checks, said no: another token is needed
├── FleetRefused         the fleet said no: somebody must look at this device there
│   └── WrongServer      who answers isn't this board's fleet: nothing was told to it
├── IdentityUnavailable  the token or TPM that holds the identity key: somebody must look at it
├── FleetUnreachable     try again later
├── StateDamaged         a file of the state folder isn't what this software writes
└── AlreadyRunning       another daemon uses the same state folder
"""


class AgentError(Exception):
    """The message names the thing, what was expected and what was found."""


class WrongConfiguration(AgentError):
    """One line for each mistake."""


class NotEnrolled(AgentError):
    """There is no device.json."""


class EnrolmentRefused(AgentError):
    """Trying again with the same token won't help."""


class FleetRefused(AgentError):
    """Asking again soon won't help."""


class WrongServer(FleetRefused):
    """Its certificate is by no authority that this board trusts."""


class IdentityUnavailable(AgentError):
    """The identity key can't be used now."""


class FleetUnreachable(AgentError):
    """No answer, or an answer that says to come back later."""


class StateDamaged(AgentError):
    """A file of the state folder can't be used."""


class AlreadyRunning(AgentError):
    """One daemon a state folder."""
