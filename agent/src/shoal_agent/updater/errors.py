"""Why does an update not go on, and what does the updater do about it?

UpdateError
├── TryLater             network, fleet, trust, memory or room is wanting now: end, be started again later
│   └── Untrustworthy    the metadata is expired, or not signed as it must be: nothing new is installed meanwhile
├── Refused              this release isn't for this board: it stays as it is, or goes back to the previous release
├── Superseded           a newer desired document came before anything was switched
├── Restarting           the agent itself is about to be started anew, and goes on with the update then
├── UnreadableJournal    neither good nor bad: the journal is kept aside and so is what serves
└── BrokenInstallation   a file that enrolment wrote, or slots.json, is missing or damaged: a person must look
"""


class UpdateError(Exception):
    """An update that doesn't go on. The message is shown to people as it stands."""


class TryLater(UpdateError):
    """Nothing was learnt about the release."""


class Untrustworthy(TryLater):
    """Signed metadata that can't be built on now. It says nothing about a release."""


class Refused(UpdateError):
    """The release failed; the message says in which way, with numbers."""


class Superseded(UpdateError):
    """The journal's generation is no longer what the fleet wants."""


class Restarting(UpdateError):
    """The journal stays as it is."""


class UnreadableJournal(UpdateError):
    """update.json is damaged."""


class BrokenInstallation(UpdateError):
    """The state folder lacks what every step needs."""
