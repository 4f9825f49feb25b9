"""What can go wrong while a release is made, and what should the publisher do?

ConverterError
├── FetchFailed   a source model couldn't be had, or isn't the one expected: check network and index, try again
└── BuildFailed   a release would not keep what its manifest promises: nothing usable was written
"""


class ConverterError(Exception):
    """No release was made. The message names the thing, what was expected and what was found."""


class FetchFailed(ConverterError):
    """A source model couldn't be downloaded, or its digest is another than the recorded one."""


class BuildFailed(ConverterError):
    """A measured value contradicts what the release would promise."""
