"""Is this audit log the one that was written, with nothing changed, left out or put in between?

Each entry holds the digest of the one before, so that whoever knows one digest knows all that came before it. A chain
alone shows no end that was cut off, and nothing at all against one who can write the whole of it anew: both show only
to someone who has kept a digest, or a checkpoint, elsewhere.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire import envelope
from shoal_wire.encoding import Document, Parameters, Seconds, Sha256, canonical, decode, decode_struct
from shoal_wire.envelope import PublicKey, Signer
from shoal_wire.errors import Damaged

MAX_ENTRY_BYTES = 1 << 16
"""Of one entry as a line of JSON."""

MAX_DETAIL_BYTES = 1 << 13
"""Of an entry's detail as canonical JSON."""

MAX_TEXT_CHARACTERS = 300

Sequence = Annotated[int, Meta(ge=1, le=2**53)]
Action = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\Z", max_length=64)]
"""A dotted word: `device.revoked`."""
ShortText = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, by whom, to what."""

    sequence: Sequence
    """From 1, without gaps."""
    at: Seconds
    """By the fleet's clock, in whole milliseconds."""
    actor: ShortText
    action: Action
    subject: ShortText
    detail: Parameters
    previous: Sha256
    """Digest of the entry before; 64 zeros in the first."""
    digest: Sha256
    """Of all the other fields, see `digest_of`."""


class AuditHead(msgspec.Struct, frozen=True):
    """Up to where a log is known."""

    sequence: Annotated[int, Meta(ge=0, le=2**53)]
    digest: Sha256


START = AuditHead(0, "0" * 64)
"""Head of a log without entries."""


class AuditCheckpoint(Document, frozen=True, kw_only=True):
    """What the fleet signs from time to time: how far its log had come."""

    sequence: Annotated[int, Meta(ge=0, le=2**53)]
    digest: Sha256
    at: Seconds


def make_entry(
    head: AuditHead, *, at: float, actor: str, action: str, subject: str, detail: Mapping[str, object]
) -> AuditEntry:
    """The entry that follows `head`. Texts are cut to their bound, and a detail that is too long to its digest.

    Raises:
        TypeError, ValueError: the detail isn't JSON.
    """
    at_ms = round(at * 1000)
    entry = AuditEntry(
        sequence=head.sequence + 1,
        at=at_ms / 1000,
        actor=_clean(actor),
        action=action,
        subject=_clean(subject),
        detail=_bound_detail(detail),
        previous=head.digest,
        digest=START.digest,
    )
    return msgspec.structs.replace(entry, digest=digest_of(entry))


def digest_of(entry: AuditEntry) -> str:
    """SHA-256, in hex, over a JSON list without white space: a name, then every field but the digest.

    The time counts in whole milliseconds, the detail as its canonical text.
    """
    fields: list[str | int] = [
        "shoal-audit-1",
        entry.sequence,
        round(entry.at * 1000),
        entry.actor,
        entry.action,
        entry.subject,
        canonical_detail(entry.detail),
        entry.previous,
    ]
    return hashlib.sha256(canonical(fields)).hexdigest()


def canonical_detail(detail: Mapping[str, object]) -> str:
    """JSON text of a detail: keys sorted, no white space, ASCII.

    Raises:
        TypeError, ValueError: it isn't JSON.
    """
    return json.dumps(detail, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_entry(line: bytes, *, what: str) -> AuditEntry:
    """Read one line of an export.

    Raises:
        Malformed: no entry.
    """
    return decode_struct(line, AuditEntry, what=what, limit_bytes=MAX_ENTRY_BYTES)


def follow(head: AuditHead, entry: AuditEntry) -> AuditHead:
    """The head after `entry`, which must be the next one.

    Raises:
        Damaged: it isn't, or it was changed; the message names it.
    """
    what = f"audit entry {entry.sequence}"
    if entry.sequence != head.sequence + 1:
        raise Damaged(f"{what}: expected entry {head.sequence + 1}: entries were taken out or put in")
    if entry.previous != head.digest:
        raise Damaged(
            f"{what}: follows an entry with the digest {entry.previous[:12]}, expected {head.digest[:12]}: entry "
            f"{head.sequence} or this one was replaced"
        )
    expected = digest_of(entry)
    if entry.digest != expected:
        raise Damaged(
            f"{what}: its digest is {entry.digest[:12]}, expected {expected[:12]}: it was changed after it was written"
        )
    return AuditHead(entry.sequence, entry.digest)


def seal_checkpoint(head: AuditHead, *, at: float, signer: Signer) -> bytes:
    """Sign how far the log has come; returns the envelope."""
    checkpoint = AuditCheckpoint(sequence=head.sequence, digest=head.digest, at=at)
    return envelope.seal(msgspec.json.encode(checkpoint, order="sorted"), envelope.AUDIT_CHECKPOINT, signer)


def open_checkpoint(raw: bytes, key: PublicKey, *, what: str) -> AuditCheckpoint:
    """The checkpoint in an envelope that `key` signed.

    Raises:
        Malformed, Untrusted, Unsupported: it isn't one, or not signed by that key.
    """
    payload = envelope.verify(raw, envelope.AUDIT_CHECKPOINT, [key], what=what, limit_bytes=MAX_ENTRY_BYTES)
    return decode(payload, AuditCheckpoint, what=what)


def _bound_detail(detail: Mapping[str, object]) -> Parameters:
    text = canonical_detail(detail)
    if len(text) > MAX_DETAIL_BYTES:
        text = canonical_detail({"cut_bytes": len(text), "cut_sha256": hashlib.sha256(text.encode()).hexdigest()})
    # Read back as any reader reads it, so that both have the same numbers.
    read: Parameters = msgspec.json.decode(text, type=Parameters)
    return read


def _clean(text: str) -> str:
    """On one line, without what a terminal obeys, and no longer than the bound."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_TEXT_CHARACTERS])
