"""What can go wrong while a release is made, and what should the publisher do?

ConverterError
├── FetchFailed     a source model couldn't be had, or isn't the one expected: check network and index, try again
├── BadRecipe       the recipe asks for what doesn't exist or doesn't fit: correct it
├── BadModel        the model's file is broken or of an unknown format, or does what can't be converted
├── BadData         a calibration or evaluation set is empty, mislabelled, of a wrong shape, or holds NaNs
├── ToolMissing     a framework isn't installed: the message names the extra
├── PathFailed      a conversion in its own process failed; it costs one variant
└── BuildFailed     a release would not keep what its manifest promises: nothing usable was written
"""


class ConverterError(Exception):
    """No release was made. The message names the thing, what was expected and what was found."""


class FetchFailed(ConverterError):
    """A source model couldn't be downloaded, or its digest is another than the recorded one."""


class BadRecipe(ConverterError):
    """A field of the recipe is wrong, or two of them don't fit each other or the model."""


class BadModel(ConverterError):
    """Not a model of a format that the workbench reads, or one that is broken."""


class BadData(ConverterError):
    """Items that can't be read or used."""


class ToolMissing(ConverterError):
    """A framework isn't installed here."""


class PathFailed(ConverterError):
    """A tool refused, crashed, or took too long; the message has its last words."""


class BuildFailed(ConverterError):
    """A measured value contradicts what the release would promise."""
