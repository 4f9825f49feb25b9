"""How does an entry get into the audit log, and how is the log read?

An entry is written in the transaction of what it tells: there is neither one without the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from shoal_wire import audit
from shoal_wire.audit import START, AuditEntry, AuditHead
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.audit.models import AuditRow

READ_AT_ONCE = 500
"""Entries that are in memory at a time when the whole log is read."""

FLEET = "fleet"
"""Actor of what the fleet does by itself."""


class Filter(NamedTuple):
    """Which entries are wanted; an empty text is no condition."""

    actor: str = ""
    action: str = ""
    """A whole action, or its first word: `device` for all of `device.…`."""
    subject: str = ""


def append(
    session: Session, *, actor: str, action: str, subject: str, detail: Mapping[str, object], now: float
) -> None:
    """Add an entry in the caller's transaction, which must be one that writes (`database.writing`).

    `actor` is `user:NAME`, `token:NAME`, `device:ID` or FLEET, `action` a dotted word in the past tense, `subject` the
    id or name of what it was done to. `detail` is JSON, and never holds a secret.

    Raises:
        TypeError, ValueError: `detail` isn't JSON.
    """
    entry = audit.make_entry(find_head(session), at=now, actor=actor, action=action, subject=subject, detail=detail)
    session.add(
        AuditRow(
            sequence=entry.sequence,
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            subject=entry.subject,
            detail=audit.canonical_detail(entry.detail),
            previous=entry.previous,
            digest=entry.digest,
        )
    )
    session.flush()


def find_head(session: Session) -> AuditHead:
    """How far the log has come."""
    newest = session.execute(
        select(AuditRow.sequence, AuditRow.digest).order_by(AuditRow.sequence.desc()).limit(1)
    ).one_or_none()
    return START if newest is None else AuditHead(newest.sequence, newest.digest)


def list_entries(session: Session, *, before: int | None, wanted: Filter, limit: int) -> Sequence[AuditEntry]:
    """Entries below the sequence `before`, or the newest, newest first."""
    query = select(AuditRow).order_by(AuditRow.sequence.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditRow.sequence < before)
    if wanted.actor:
        query = query.where(AuditRow.actor == wanted.actor)
    if wanted.subject:
        query = query.where(AuditRow.subject == wanted.subject)
    if "." in wanted.action:
        query = query.where(AuditRow.action == wanted.action)
    elif wanted.action:
        query = query.where(AuditRow.action.startswith(f"{wanted.action}.", autoescape=True))
    return [_entry(row) for row in session.scalars(query)]


def read_entries(session: Session, *, after: int, until: int) -> Iterator[AuditEntry]:
    """Every entry above the sequence `after`, up to `until`, oldest first, a page and a transaction at a time."""
    while after < until:
        rows = session.scalars(
            select(AuditRow)
            .where(AuditRow.sequence > after, AuditRow.sequence <= until)
            .order_by(AuditRow.sequence)
            .limit(READ_AT_ONCE)
        ).all()
        entries = [_entry(row) for row in rows]
        session.rollback()
        session.expunge_all()
        yield from entries
        after = entries[-1].sequence if entries else until


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        sequence=row.sequence,
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        detail=msgspec.json.decode(row.detail),
        previous=row.previous,
        digest=row.digest,
    )
