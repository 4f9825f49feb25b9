"""What is in an enrolment token, the one string that makes a new board part of a fleet?

Where the fleet is, a secret that works once, and the digests of what the board must trust: the certificate authority
and the TUF root. There is no trust on first use.
"""

import base64
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire.encoding import Sha256, decode_struct
from shoal_wire.errors import Malformed

_PREFIX = "shoal1."
_MAX_BYTES = 4096


class EnrolmentToken(msgspec.Struct, frozen=True):
    """A token, taken apart."""

    url: Annotated[str, Meta(pattern=r"^https://[^\s/]+\Z", max_length=300)]
    """The fleet's listener for enrolment."""
    secret: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{32,128}\Z")]
    ca_sha256: Sha256
    """Of the authority's certificate in DER."""
    root_sha256: Sha256
    """Of the bytes of the TUF root metadata, version 1 or whichever the fleet starts devices with."""


def write_token(token: EnrolmentToken) -> str:
    """The one string."""
    return _PREFIX + _encode(msgspec.json.encode(token))


def parse_token(text: str) -> EnrolmentToken:
    """Take a token apart. White space around it is ignored, as it was pasted by a person.

    Raises:
        Malformed: not a token; the message never repeats it, since it is a secret.
    """
    stripped = text.strip()
    if not stripped.startswith(_PREFIX) or len(stripped) > _MAX_BYTES:
        raise Malformed(f"enrolment token: expected one string that starts with {_PREFIX!r}")
    body = stripped[len(_PREFIX) :]
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except ValueError:
        raw = b""
    if _encode(raw) != body:
        raise Malformed("enrolment token: damaged (was a part of it lost while copying?)")
    return decode_struct(raw, EnrolmentToken, what="enrolment token", limit_bytes=_MAX_BYTES)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
