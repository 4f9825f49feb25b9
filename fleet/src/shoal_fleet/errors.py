"""How can the fleet refuse a request, and what should the one who asked do about it?

FleetError
├── NotAllowed        no token, or one that doesn't count: log in again
│   ├── WrongRole     known, but not for this
│   ├── LoginNeeded   a page that wants a login first
│   ├── ProviderDown  the identity provider doesn't answer as it should: try again later
│   └── CrossSite     a cookie that another site's page made the browser send
├── TooSoon           too many failed attempts: wait, then ask again
├── NotFound          no such thing: look at the list
├── Conflict          another state than the request expects: look at the present one, then ask again
├── Refused           the request itself is wrong: asking again doesn't help
│   └── TooLarge      more bytes than the fleet takes
├── BadConfiguration  a setting isn't what can be: change it
└── BrokenState       the fleet's own files are missing or damaged: restore them

Only `api.py` knows which HTTP status each of them is.
"""


class FleetError(Exception):
    """A request that was refused. The message names the thing, what was expected and what was found."""


class NotAllowed(FleetError):
    """Who asks isn't known."""


class WrongRole(NotAllowed):
    """Who asks is known, and may not do this."""


class LoginNeeded(NotAllowed):
    """Who looks at a page isn't logged in."""


class ProviderDown(NotAllowed):
    """The identity provider doesn't answer as it should, which says nothing of who logs in."""


class CrossSite(NotAllowed):
    """A request that changes something came with a cookie, but not from a page of this fleet."""


class TooSoon(FleetError):
    """Too many attempts failed of late."""

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class NotFound(FleetError):
    """There is no such thing."""


class Conflict(FleetError):
    """The fleet is in another state than the request expects."""


class Refused(FleetError):
    """The request can't be granted in any state."""


class TooLarge(Refused):
    """More bytes than the fleet takes."""


class BadConfiguration(FleetError):
    """What was configured isn't what can be; one line for each fault."""


class BrokenState(FleetError):
    """A file of the fleet's state folder is missing or damaged."""
