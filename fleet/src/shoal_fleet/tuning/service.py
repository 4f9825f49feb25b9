"""Which verdicts stand, and what do they tell a board of the same kind?"""

from collections.abc import Sequence

import msgspec
from shoal_wire.manifest import Manifest, Model
from shoal_wire.tuning import BoardKind, Candidate, KnownChoice, MeasuredCandidate, Objective
from sqlalchemy import ScalarResult, Select, func, select
from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.tuning.models import TunedRow
from shoal_fleet.tuning.rules import Files, Verdict, choose, name_variants

DEFAULT_OBJECTIVE: Objective = "latency"
"""What a device is told for: an assignment names no objective."""


class KnownChoices:
    """What is known of the models of one release. Each kind of board is looked up once."""

    def __init__(self, session: Session, manifest: Manifest, *, objective: Objective = DEFAULT_OBJECTIVE) -> None:
        self._session = session
        self._objective = objective
        self._models = {model.name: _variants(manifest, model) for model in manifest.models}
        self._found: dict[str, tuple[KnownChoice, ...]] = {}

    def of(self, fingerprint: str | None) -> tuple[KnownChoice, ...]:
        """At most one choice for each model; none for a board that doesn't tell its kind."""
        if fingerprint is None:
            return ()
        if fingerprint not in self._found:
            self._found[fingerprint] = tuple(self._look_up(fingerprint))
        return self._found[fingerprint]

    def _look_up(self, fingerprint: str) -> list[KnownChoice]:
        found = []
        for model, variants in self._models.items():
            rows = _standing().where(
                TunedRow.fingerprint == fingerprint,
                TunedRow.model == model,
                TunedRow.objective == self._objective,
                Device.revoked_at.is_(None),
            )
            verdicts = [_read_verdict(row) for row in _newest(self._session, rows)]
            known = choose(name_variants(verdicts, variants), model=model)
            if known is not None:
                found.append(known)
        return found


def list_standing(
    session: Session,
    *,
    model: str | None,
    fingerprint: str | None,
    device_id: str | None,
    after_id: int,
    limit: int,
) -> Sequence[TunedRow]:
    """Verdicts that no newer one has replaced, in the order in which they were stored, from the first after `after_id`.

    Of one device about a model of a release, for the same objective on the same kind of board, the newest that was
    measured stands, and the newest confirmation.
    """
    wanted = ((TunedRow.model, model), (TunedRow.fingerprint, fingerprint), (TunedRow.device_id, device_id))
    rows = _standing().where(*(column == value for column, value in wanted if value is not None))
    return _newest(session, rows, after_id=after_id, limit=limit).all()


def find_newest(session: Session) -> dict[tuple[str, str], TunedRow]:
    """The newest verdict of each device about each release, by device id and digest of the manifest."""
    last = select(func.max(TunedRow.id)).group_by(TunedRow.device_id, TunedRow.manifest_sha256)
    rows = session.scalars(select(TunedRow).where(TunedRow.id.in_(last)))
    return {(row.device_id, row.manifest_sha256): row for row in rows}


def read_board(row: TunedRow) -> BoardKind:
    """The kind of board that a verdict is of."""
    return msgspec.json.decode(row.board, type=BoardKind)


def read_choice(row: TunedRow) -> Candidate:
    """What a verdict chose."""
    return msgspec.json.decode(row.choice, type=Candidate)


def read_files(row: TunedRow) -> Files:
    """Digests of the files that a verdict is about."""
    return msgspec.json.decode(row.files, type=tuple[str, ...])


def read_measured(row: TunedRow) -> tuple[MeasuredCandidate, ...]:
    """Figures that a verdict rests on, those of its choice among them."""
    return msgspec.json.decode(row.measured, type=tuple[MeasuredCandidate, ...])


def _standing() -> Select[int]:
    """Numbers of the verdicts that stand, for conditions to be added to."""
    subject = (TunedRow.device_id, TunedRow.fingerprint, TunedRow.model, TunedRow.objective)
    finding = (TunedRow.manifest_sha256, TunedRow.is_confirmed)
    return select(func.max(TunedRow.id)).join(Device).group_by(*subject, *finding)


def _newest(
    session: Session, numbers: Select[int], *, after_id: int = 0, limit: int | None = None
) -> ScalarResult[TunedRow]:
    wanted = select(TunedRow).where(TunedRow.id.in_(numbers), TunedRow.id > after_id)
    return session.scalars(wanted.order_by(TunedRow.id).limit(limit))


def _read_verdict(row: TunedRow) -> Verdict:
    choice = read_choice(row)
    figures = next(one for one in read_measured(row) if one.candidate == choice)
    return Verdict(
        number=row.id,
        device_id=row.device_id,
        choice=choice,
        files=read_files(row),
        engine_version=figures.engine_version,
        p50_ms=figures.p50_ms,
        is_settled=row.is_settled,
        is_confirmed=row.is_confirmed,
        is_emulated=row.is_emulated,
    )


def _variants(manifest: Manifest, model: Model) -> dict[Files, list[str]]:
    """Names of a model's variants by the digests of their plaintext files."""
    digests = {file.name: file.plaintext_sha256 for file in manifest.files}
    named: dict[Files, list[str]] = {}
    for variant in model.variants:
        named.setdefault(tuple(digests[name] for name in variant.files), []).append(variant.name)
    return named
