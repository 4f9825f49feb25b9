"""How do structs become JSON, and how is JSON from outside read safely?

Unknown fields are ignored, so that either side may be the newer one. A sender that adds a field which an older reader
must not overlook names it in `critical`; a reader that doesn't know that field refuses the message.
"""

import base64
import json
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from shoal_wire.errors import Malformed, Unsupported

PROTOCOL = 1
"""Version that this software writes."""

MINIMUM_PROTOCOL = 1
"""Oldest version that this software reads. A newer one is read too: what must not be missed is marked critical."""

MAX_DOCUMENT_BYTES = 1 << 20

DeviceId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{2,62}\Z")]
"""Opaque name that the fleet gives a device: certificate CN, MQTT client id and topic segment."""

ModelName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
Version = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")]
"""Name of a thing inside a manifest. Never a path: it holds no slash and doesn't start with a dot."""

Label = Annotated[str, Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=4000)]
Bytes64 = Annotated[str, Meta(max_length=1 << 17, pattern=r"^[A-Za-z0-9+/]*={0,2}\Z")]
"""Base64 text of a short binary value: a key, a signature, a sealed content key."""

Counter = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Bytes = Annotated[int, Meta(ge=0, le=2**50)]
Seconds = Annotated[float, Meta(ge=0, le=250_000_000_000)]
"""A time or a duration. The bound, a time in the year 9892, keeps every time a date that can be shown."""

Parameters = dict[str, Any]
"""A JSON object whose owner parses it strictly: an operation its parameters, a comparison the expected answer."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What every signed or published document starts with."""

    protocol: Annotated[int, Meta(ge=0, le=2**15)] = PROTOCOL
    critical: Annotated[tuple[Identifier, ...], Meta(max_length=32)] = ()


DocumentT = TypeVar("DocumentT", bound=Document)
StructT = TypeVar("StructT", bound=msgspec.Struct)
KindT = TypeVar("KindT")


def encode(message: msgspec.Struct) -> bytes:
    """JSON bytes of a struct, keys sorted, so that equal structs give equal bytes."""
    return msgspec.json.encode(message, order="sorted")


def decode(raw: bytes, kind: type[DocumentT], *, what: str, limit_bytes: int = MAX_DOCUMENT_BYTES) -> DocumentT:
    """Parse a document whose signature was checked, or that carries none.

    Raises:
        Malformed: too long, not JSON, or a field of another type or range; the message names the field.
        Unsupported: older than MINIMUM_PROTOCOL, or a critical field that this version doesn't know.
    """
    # The other fields are looked at afterwards: in a document of another protocol they may be of another type.
    head = decode_struct(raw, Document, what=what, limit_bytes=limit_bytes)
    if head.protocol < MINIMUM_PROTOCOL:
        raise Unsupported(f"{what}: protocol {head.protocol} is older than {MINIMUM_PROTOCOL}, the oldest read")
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    missed = [name for name in head.critical if name not in known]
    if missed:
        raise Unsupported(
            f"{what}: needs the field {missed[0]!r}, which protocol {PROTOCOL} doesn't know; update this software"
        )
    return decode_struct(raw, kind, what=what, limit_bytes=limit_bytes)


def decode_struct(raw: bytes, kind: type[StructT], *, what: str, limit_bytes: int = MAX_DOCUMENT_BYTES) -> StructT:
    """Parse a part of a document, or a file of this program's own, into a struct.

    Raises:
        Malformed: too long, not JSON, or a field of another type or range; the message names the field.
    """
    return decode_by(msgspec.json.Decoder(kind), raw, what=what, limit_bytes=limit_bytes)


def decode_by(decoder: msgspec.json.Decoder[KindT], raw: bytes, *, what: str, limit_bytes: int) -> KindT:
    """Parse one of several kinds of structs. Raises as `decode_struct` does."""
    if len(raw) > limit_bytes:
        raise Malformed(f"{what}: {len(raw)} bytes, expected at most {limit_bytes}")
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"{what}: {_shorten(str(error))}") from None
    except RecursionError:
        raise Malformed(f"{what}: nested too deeply") from None


def decode_base64(text: str, *, what: str) -> bytes:
    """Bytes that standard base64 text stands for. Only one text stands for them, as only one is what was signed.

    Raises:
        Malformed: not base64, or another spelling than `base64.b64encode` has.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Malformed(f"{what}: not base64") from None
    if base64.b64encode(raw) != text.encode():
        raise Malformed(f"{what}: not base64 (its last character has bits that belong to no byte)")
    return raw


def canonical(values: list[str | int]) -> bytes:
    """Bytes of a list of strings and whole numbers, for binding a context: no two lists give the same bytes."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()


def _shorten(reason: str) -> str:
    """A parser's message fit for a log: it may repeat a name from outside, of any length. The field stands last."""
    if len(reason) > 400:
        reason = f"{reason[:200]} … {reason[-150:]}"
    return "".join(character if character.isprintable() else "?" for character in reason)
