"""What did somebody put on the boot partition, so that this board enrols by itself?

A TOML file of a few lines, made on the computer that the memory card was written on:

    token = "…"                      # what `shoal device token` printed
    name = "yard-camera"             # what people call the board; its host name where this is left out
    profile = "raspberry-pi-5"       # what the board is found to be where this is left out
"""

import codecs
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Label
from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml

from shoal_agent.errors import WrongConfiguration

MAX_BYTES = 64 << 10


class EnrolmentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that enrolling needs."""

    token: Annotated[str, Meta(min_length=1, max_length=4096)]
    name: Label | None = None
    profile: Label | None = None


def parse_enrolment_file(raw: bytes, *, what: str) -> EnrolmentFile:
    """The content of the file called `what`. It may have been written by any editor: Windows' line ends and byte order
    mark do no harm.

    Raises:
        WrongConfiguration: too long, not TOML, no token, an unknown key, or a value of another kind. The token isn't
            told.
    """
    if len(raw) > MAX_BYTES:
        raise WrongConfiguration(f"{what}: {len(raw)} bytes or more, expected at most {MAX_BYTES}")
    try:
        values = read_toml(raw.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n"), what=what)
    except Malformed as error:
        raise WrongConfiguration(str(error)) from None
    try:
        return msgspec.convert(values, EnrolmentFile)
    except msgspec.ValidationError as error:
        raise WrongConfiguration(
            f'{what}: {str(error)[:500]}; expected token = "…", and perhaps name and profile'
        ) from None
