"""How can the fleet's broker fail?

BrokerError
├── BrokerMissing    Mosquitto, or the program that ties it to the fleet, isn't installed: install it
└── BrokerFailed     it was started and didn't come up: its log says why
"""


class BrokerError(Exception):
    """The broker isn't there. The message names what was expected and what was found."""


class BrokerMissing(BrokerError):
    """A program is not installed; the message names the package."""


class BrokerFailed(BrokerError):
    """Mosquitto ended, or didn't answer in time; the message ends with the last lines of its log."""
