"""Which timings of a tuned board belong into its device profile, and how do they get there?

A report is what `shoal-agent tune --json` prints. Only timings of that very kind of board are taken, and none of a
board whose processor is a program. Candidates that were dropped before the last round were measured too little.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import tomlkit
from shoal_wire.device_profile import DeviceProfile, Engine, MeasuredSpeed, parse_profile
from shoal_wire.device_profile_rules import subject_of
from shoal_wire.encoding import Counter, Label, ModelName, Seconds, decode_struct
from shoal_wire.errors import Malformed
from shoal_wire.tuning import BoardKind, Candidate
from tomlkit.items import AoT, Table

from shoal_fleet.command.errors import CommandError

MAX_REPORT_BYTES = 4 << 20
EARLIEST = date(2026, 1, 1)
"""A report of before was made by a board whose clock was never set: this program is younger."""
DIGITS = 4
"""Of a figure: more would be noise, and none of them is as exact as that."""

ENGINE_NAMES = frozenset(engine.value for engine in Engine)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says of a candidate."""

    candidate: Candidate
    is_finalist: bool
    p50_ms: Seconds
    p95_ms: Seconds
    answers_per_s: Seconds
    peak_bytes: Counter
    joules: Seconds | None = None


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a report holds for."""

    engines: dict[Label, Label]
    """Version by `<engine>.<format>`."""
    governor: Label
    agent_version: Label


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a report that a profile can use."""

    model: ModelName
    at: Seconds
    conditions: Conditions
    meter: Label
    measured: tuple[Measured, ...]
    board: BoardKind | None = None
    profile: Label = ""


def parse_report(raw: bytes, *, what: str) -> Report:
    """Read what `shoal-agent tune --json` printed.

    Raises:
        CommandError: it isn't that.
    """
    try:
        return decode_struct(raw, Report, what=what, limit_bytes=MAX_REPORT_BYTES)
    except Malformed as error:
        raise CommandError(f"{error}: expected what `shoal-agent tune MODEL --json` printed") from None


def take_rows(report: Report, *, profile: DeviceProfile, what: str) -> tuple[MeasuredSpeed, ...]:
    """The rows of a report that belong into a profile.

    Raises:
        CommandError: it is of another kind of board, of none, of an emulated one, or its date can't be right.
    """
    board = _check_board(report, profile=profile, what=what)
    measured_on = datetime.fromtimestamp(report.at, UTC).date()
    if measured_on < EARLIEST:
        raise CommandError(f"{what}: it was made on {measured_on}: set the board's clock, and tune with --fresh")
    rows = tuple(
        _row(one, report, measured_on=measured_on, board=board)
        for one in report.measured
        if one.is_finalist and one.candidate.engine in ENGINE_NAMES and one.answers_per_s > 0
    )
    if not rows:
        raise CommandError(f"{what}: no candidate was measured to the end in an engine that a profile can name")
    return rows


def merge_rows(earlier: Iterable[MeasuredSpeed], newer: Iterable[MeasuredSpeed]) -> tuple[MeasuredSpeed, ...]:
    """One row for each subject, the one that was measured last; those that were there before keep their place."""
    rows = {subject_of(row): row for row in earlier}
    for row in newer:
        present = rows.get(subject_of(row))
        if present is None or _day(present) <= _day(row):
            rows[subject_of(row)] = row
    return tuple(rows.values())


def write_merged(text: str, rows: Sequence[MeasuredSpeed]) -> str:
    """A profile's text with other measured speeds; everything else, comments too, stays as it is.

    Raises:
        CommandError: the result isn't what was asked for, and must not be used.
    """
    document = tomlkit.parse(text)
    present = document.get("measured_speeds")
    tables = {_subject(table): table for table in present} if isinstance(present, AoT) else {}
    if not isinstance(present, AoT):
        document.pop("measured_speeds", None)
    added = []
    for row in rows:
        table = tables.get(subject_of(row))
        if table is None:
            added.append(_fill(tomlkit.table(), row))
        else:
            _fill(table, row)
    if isinstance(present, AoT):
        for table in added:
            present.append(table)
    elif added:
        document.append("measured_speeds", tomlkit.aot())
        for table in added:
            document["measured_speeds"].append(table)
    merged = tomlkit.dumps(document)
    try:
        written = parse_profile(merged).measured_speeds
    except Malformed as error:
        raise CommandError(f"the merged profile can't be read: {error}") from None
    if set(written) != set(rows):
        raise CommandError("the merged profile holds other rows than it should: add them by hand, from --json")
    return merged


def _check_board(report: Report, *, profile: DeviceProfile, what: str) -> BoardKind:
    board = report.board
    if board is None:
        raise CommandError(f"{what}: it doesn't say on which board it was made: tune again there, with --fresh")
    if board.is_emulated:
        raise CommandError(f"{what}: it was made on an emulated board, whose timings say nothing of a real one")
    if not profile.compatible and not profile.processor_names:
        raise CommandError(
            f"{what}: no board is known by profile {profile.name}, so no timing can be that of its kind: "
            "write a profile for this board first"
        )
    if report.profile != profile.name or board.architecture != profile.architecture.value:
        seen = f"{report.profile or 'no known profile'} ({board.board or board.processor}, {board.architecture})"
        raise CommandError(f"{what}: expected a report of {profile.name}, found one of {seen}")
    return board


def _row(one: Measured, report: Report, *, measured_on: date, board: BoardKind) -> MeasuredSpeed:
    candidate, conditions = one.candidate, report.conditions
    has_joules = one.joules is not None and one.joules > 0
    return MeasuredSpeed(
        model=report.model,
        variant=candidate.variant,
        engine=Engine(candidate.engine),
        engine_version=_version(candidate.engine, conditions),
        threads=candidate.threads,
        answers_per_second=_short(one.answers_per_s),
        precision=candidate.precision,
        batch=candidate.batch,
        device=candidate.device,
        p50_ms=_short(one.p50_ms) or None,
        p95_ms=_short(one.p95_ms) or None,
        joules=_short(one.joules or 0.0) if has_joules else None,
        joules_source="meter" if has_joules else None,
        meter=report.meter if has_joules else None,
        memory_peak_bytes=one.peak_bytes,
        measured_on=measured_on,
        agent_version=conditions.agent_version,
        governor=conditions.governor,
        processor=board.processor,
    )


def _version(engine: str, conditions: Conditions) -> str:
    found = [version for name, version in conditions.engines.items() if name.rpartition(".")[0] == engine]
    return found[0] if found else "unknown"


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def _day(row: MeasuredSpeed) -> date:
    return row.measured_on or date.min


def _values(row: MeasuredSpeed) -> dict[str, Any]:
    """What a row's table says: what has its default is left out."""
    fields = msgspec.structs.fields(row)
    values = {field.name: getattr(row, field.name) for field in fields}
    left_out = {field.name for field in fields if not field.required and values[field.name] == field.default}
    return {name: _plain(value) for name, value in values.items() if name not in left_out}


def _plain(value: object) -> object:
    return value.value if isinstance(value, Engine) else value


def _fill(table: Table, row: MeasuredSpeed) -> Table:
    values = _values(row)
    for name in [name for name in table if name not in values]:
        table.remove(name)
    for name, value in values.items():
        if table.get(name) != value:
            table[name] = value
    return table


def _subject(table: Table) -> object:
    return subject_of(msgspec.convert(table.unwrap(), MeasuredSpeed))
