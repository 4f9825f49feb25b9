"""Does the log only grow, with what it tells, in an order that can be checked?"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from shoal_fleet.audit import service
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions, writing
from shoal_wire import audit
from shoal_wire.audit import START
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.unit.fleet.audit.log_entries import append
from tests.unit.fleet.boards import NOW


def unbroken(sessions: Sessions) -> int:
    """Number of entries, each checked."""
    head = START
    with sessions() as session:
        for entry in service.read_entries(session, after=0, until=2**53):
            head = audit.follow(head, entry)
    return head.sequence


def test_entries_form_a_chain(sessions: Sessions) -> None:
    for number in range(3):
        append(sessions, "device.revoked", detail=number)
    assert unbroken(sessions) == 3


def test_several_entries_of_one_transaction_form_a_chain(sessions: Sessions) -> None:
    with sessions() as session, writing(session):
        for action in ("rollout.created", "rollout.started"):
            service.append(session, actor="user:anna", action=action, subject="rollout 1", detail={}, now=NOW)
    assert unbroken(sessions) == 2


def test_an_entry_goes_with_what_it_tells(sessions: Sessions) -> None:
    def fail() -> None:
        with sessions() as session, writing(session):
            service.append(session, actor="user:anna", action="device.revoked", subject="d", detail={}, now=NOW)
            raise RuntimeError

    append(sessions, "device.enrolled")
    with pytest.raises(RuntimeError):
        fail()
    append(sessions, "device.renamed")
    assert unbroken(sessions) == 2


def test_writers_at_the_same_time_form_one_chain(sessions: Sessions) -> None:
    def write(number: int) -> None:
        for _ in range(5):
            append(sessions, "device.renamed", actor=f"user:{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert unbroken(sessions) == 20


@pytest.mark.parametrize("table", ["audit_entry", "audit_checkpoint"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET at = 0",
        "DELETE FROM {table}",
        "INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    ],
)
def test_the_database_refuses_to_change_or_remove(sessions: Sessions, table: str, statement: str) -> None:
    append(sessions, "device.enrolled")
    with sessions() as session, writing(session):
        session.execute(text("INSERT INTO audit_checkpoint (sequence, at, envelope) VALUES (1, 5, 'x')"))
    with (
        pytest.raises(IntegrityError, match=f"{table}: rows can only be added"),
        sessions() as session,
        writing(session),
    ):
        session.execute(text(statement.format(table=table)))
    assert unbroken(sessions) == 1


def test_a_list_is_filtered_and_paged_newest_first(sessions: Sessions) -> None:
    append(sessions, "device.enrolled", actor="device:d-yard")
    append(sessions, "rollout.created", subject="rollout 1")
    append(sessions, "rollout.aborted", subject="rollout 1", actor="user:bert")
    append(sessions, "rollouts.odd", subject="rollout 2")

    def found(wanted: Filter, *, before: int | None = None, limit: int = 10) -> list[int]:
        with sessions() as session:
            entries = service.list_entries(session, before=before, wanted=wanted, limit=limit)
        return [entry.sequence for entry in entries]

    assert found(Filter()) == [4, 3, 2, 1]
    assert found(Filter(), limit=2) == [4, 3]
    assert found(Filter(), before=3) == [2, 1]
    assert found(Filter(action="rollout")) == [3, 2]
    assert found(Filter(action="rollout.created")) == [2]
    assert found(Filter(actor="user:bert", subject="rollout 1")) == [3]
    assert found(Filter(action="roll%")) == []


def test_a_long_log_is_read_whole(sessions: Sessions) -> None:
    with sessions() as session, writing(session):
        for _ in range(service.READ_AT_ONCE + 1):
            service.append(session, actor="fleet", action="a.b", subject="s", detail={}, now=NOW)
    assert unbroken(sessions) == service.READ_AT_ONCE + 1
