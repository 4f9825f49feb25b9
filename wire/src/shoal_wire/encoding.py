"""How do structs become JSON, and how is JSON from outside read safely?

Unknown fields are ignored, so that either side may be the newer one. A sender that adds a field which an older reader
must not overlook names it in `critical`; a reader that doesn't know that field refuses the message.
"""

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
Seconds = Annotated[float, Meta(ge=0)]

Parameters = dict[str, Any]
"""A JSON object whose owner parses it strictly: an operation its parameters, a comparison the expected answer."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What every signed or published document starts with."""

    protocol: Annotated[int, Meta(ge=1, le=2**15)] = PROTOCOL
    critical: Annotated[tuple[Identifier, ...], Meta(max_length=32)] = ()


DocumentT = TypeVar("DocumentT", bound=Document)
StructT = TypeVar("StructT", bound=msgspec.Struct)


def encode(message: msgspec.Struct) -> bytes:
    """JSON bytes of a struct, keys sorted, so that equal structs give equal bytes."""
    return msgspec.json.encode(message, order="sorted")


def decode(raw: bytes, kind: type[DocumentT], *, what: str, limit_bytes: int = MAX_DOCUMENT_BYTES) -> DocumentT:
    """Parse a document whose signature was checked, or that carries none.

    Raises:
        Malformed: too long, not JSON, or a field of another type or range; the message names the field.
        Unsupported: older than MINIMUM_PROTOCOL, or a critical field that this version doesn't know.
    """
    document = decode_struct(raw, kind, what=what, limit_bytes=limit_bytes)
    if document.protocol < MINIMUM_PROTOCOL:
        raise Unsupported(f"{what}: protocol {document.protocol} is older than {MINIMUM_PROTOCOL}, the oldest read")
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    missed = [name for name in document.critical if name not in known]
    if missed:
        raise Unsupported(
            f"{what}: needs the field {missed[0]!r}, which protocol {PROTOCOL} doesn't know; update this software"
        )
    return document


def decode_struct(raw: bytes, kind: type[StructT], *, what: str, limit_bytes: int = MAX_DOCUMENT_BYTES) -> StructT:
    """Parse a part of a document, or a file of this program's own, into a struct.

    Raises:
        Malformed: too long, not JSON, or a field of another type or range; the message names the field.
    """
    if len(raw) > limit_bytes:
        raise Malformed(f"{what}: {len(raw)} bytes, expected at most {limit_bytes}")
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"{what}: {error}") from None
    except RecursionError:
        raise Malformed(f"{what}: nested too deeply") from None


def canonical(values: list[str | int]) -> bytes:
    """Bytes of a list of strings and whole numbers, for binding a context: no two lists give the same bytes."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()
