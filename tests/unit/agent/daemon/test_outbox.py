"""Does the outbox lose nothing that it doesn't declare lost, whatever happens between device and fleet?"""

import hashlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace
from shoal_agent.daemon.delivery import WINDOW_BATCHES, Window
from shoal_agent.daemon.outbox import NewRow, Outbox, Run, open_outbox
from shoal_wire.messages import MAX_BATCH_BYTES, MAX_BATCH_ROWS, Ack

PLENTY = 1 << 30
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where thousands of syncs cost nothing."""


def make_outbox(folder: Path, *, stream: str = "a" * 32, limit_bytes: int = PLENTY) -> Outbox:
    return open_outbox(folder / "outbox.db", stream=stream, limit_bytes=limit_bytes)


def append(outbox: Outbox, rows: list[NewRow]) -> None:
    outbox.hold(rows)
    outbox.write()


def make_answer(number: int) -> NewRow:
    body = b'{"kind":"answer","number":%d}' % number
    return NewRow(body, answer_id=hashlib.sha256(body).hexdigest())


def make_event(text: str) -> NewRow:
    return NewRow(text.encode())


def test_gives_rows_in_the_order_they_came(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event("one"), make_event("two")])
    append(outbox, [make_event("three")])
    assert outbox.run("a" * 32, after=0) == Run("a" * 32, 1, (b"one", b"two", b"three"), None)
    assert outbox.run("a" * 32, after=2) == Run("a" * 32, 3, (b"three",), None)
    assert outbox.run("a" * 32, after=3) is None
    outbox.close()


def test_keeps_rows_over_a_restart_and_sends_the_old_stream_first(tmp_path: Path) -> None:
    first = make_outbox(tmp_path)
    append(first, [make_event("old")])
    first.close()
    second = make_outbox(tmp_path, stream="b" * 32)
    append(second, [make_event("new")])
    head = second.head()
    assert head is not None and (head.stream, head.acknowledged, head.last) == ("a" * 32, 0, 1)
    assert second.acknowledge("a" * 32, sequence=1)
    head = second.head()
    assert head is not None and head.stream == "b" * 32
    second.close()


def test_an_answer_that_is_waiting_is_not_kept_twice(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_answer(1), make_answer(1), make_answer(2)])
    outbox.close()
    again = make_outbox(tmp_path, stream="b" * 32)
    append(again, [make_answer(2), make_answer(3)])
    first, second = again.run("a" * 32, after=0), again.run("b" * 32, after=0)
    assert first == Run("a" * 32, 1, (make_answer(1).body, make_answer(2).body), None)
    assert second is not None and second.rows == (make_answer(3).body,)
    again.close()


@pytest.mark.parametrize("sequence", [0, 3, 2**60])
def test_an_acknowledgement_of_rows_that_do_not_exist_removes_nothing(tmp_path: Path, sequence: int) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event("one"), make_event("two")])
    assert not outbox.acknowledge("a" * 32, sequence=sequence)
    assert not outbox.acknowledge("c" * 32, sequence=1)
    run = outbox.run("a" * 32, after=0)
    assert run is not None and len(run.rows) == 2
    outbox.close()


def test_a_full_outbox_drops_counts_first_and_declares_what_it_dropped(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path, limit_bytes=4000)
    count = NewRow(b"c" * 900, is_count=True)
    answer = NewRow(b"a" * 900)
    append(outbox, [answer, count, answer, count, answer])
    assert outbox.size_bytes <= 4000
    assert outbox.run("a" * 32, after=0) == Run("a" * 32, 1, (b"a" * 900,), None)
    assert outbox.run("a" * 32, after=1) == Run("a" * 32, 3, (b"a" * 900, b"c" * 900, b"a" * 900), (2, 2))
    append(outbox, [answer, answer])  # the other count goes, then the oldest answer
    assert outbox.run("a" * 32, after=0) == Run("a" * 32, 3, (b"a" * 900,), (1, 2))
    assert outbox.run("a" * 32, after=3) == Run("a" * 32, 5, (b"a" * 900,) * 3, (4, 4))
    outbox.close()


def test_declares_lost_rows_at_the_end_of_a_stream(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path, limit_bytes=2000)
    append(outbox, [NewRow(b"x" * 900, is_count=True)])
    outbox.close()
    later = make_outbox(tmp_path, stream="b" * 32, limit_bytes=2000)
    append(later, [NewRow(b"y" * 1800)])
    assert later.run("a" * 32, after=0) == Run("a" * 32, 2, (), (1, 1))
    later.close()


def test_a_run_fits_into_a_batch(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event(f"{number}") for number in range(MAX_BATCH_ROWS + 10)])
    run = outbox.run("a" * 32, after=0)
    assert run is not None and len(run.rows) == MAX_BATCH_ROWS
    append(outbox, [NewRow(b"x" * 50_000) for _ in range(10)])
    run = outbox.run("a" * 32, after=MAX_BATCH_ROWS + 10)
    assert run is not None and 0 < sum(len(row) + 1 for row in run.rows) < MAX_BATCH_BYTES
    outbox.close()


def test_a_file_that_cannot_be_read_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_bytes(b"this is no database, and longer than a header of SQLite would be" * 50)
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event("one")])
    assert (tmp_path / "outbox.db.unreadable").read_bytes().startswith(b"this is no database")
    outbox.close()


def test_rows_are_held_while_the_disk_is_full(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "outbox.db")
    make_outbox(tmp_path).close()
    outbox = make_outbox(tmp_path, stream="b" * 32)
    database.execute("BEGIN EXCLUSIVE")  # nobody else can write, as on a full disk
    outbox._database.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(sqlite3.OperationalError):
        append(outbox, [make_event("one")])
    assert outbox.held == 1
    database.execute("ROLLBACK")
    database.close()
    append(outbox, [make_event("two")])
    assert outbox.held == 0
    assert outbox.run("b" * 32, after=0) == Run("b" * 32, 1, (b"one", b"two"), None)
    outbox.close()


class FakeFleet:
    """Commits rows in their order, as the protocol says, and remembers all of it."""

    def __init__(self) -> None:
        self.watermarks: dict[str, int] = {}
        self.rows: dict[tuple[str, int], bytes] = {}
        self.lost: set[tuple[str, int]] = set()

    def take(self, run: Run) -> Ack:
        watermark = self.watermarks.get(run.stream, 0)
        begin = run.lost[0] if run.lost else run.first
        if begin <= watermark + 1:
            if run.lost:
                self.lost |= {(run.stream, number) for number in range(max(begin, watermark + 1), run.lost[1] + 1)}
                watermark = max(watermark, run.lost[1])
            for number, row in enumerate(run.rows, start=run.first):
                if number > watermark:
                    self.rows[run.stream, number] = row
            self.watermarks[run.stream] = max(watermark, run.last)
        return self.ack(run.stream)

    def ack(self, stream: str) -> Ack:
        return Ack(device="d-test", stream=stream, sequence=self.watermarks.get(stream, 0))


class Delivering(RuleBasedStateMachine):
    """A device and its fleet, with a broker between them that drops what it likes."""

    limit_bytes = PLENTY

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.starts = 0
        self.now = 0.0
        self.appended: list[bytes] = []
        self.unwritten: set[bytes] = set()
        """What went with the power before it was written; that some of it may have reached the fleet is no matter."""
        self.fleet = FakeFleet()
        self.flying: list[Run] = []
        self.acks: list[Ack] = []
        self.outbox = self._open()
        self.window = Window()

    def _open(self) -> Outbox:
        self.starts += 1
        return make_outbox(self.folder, stream=f"{self.starts:032x}", limit_bytes=self.limit_bytes)

    @rule(count=st.integers(1, 5), is_count=st.booleans())
    def hold(self, count: int, is_count: bool) -> None:
        rows = [NewRow(b"row %d" % (len(self.appended) + number), is_count=is_count) for number in range(count)]
        self.outbox.hold(rows)
        self.appended += [row.body for row in rows]

    @rule()
    def write(self) -> None:
        self.outbox.write()

    @rule()
    def send(self) -> None:
        self.window.follow(self.outbox.head())
        while self.window.stream is not None and self.window.may_send():
            after = self.window.sent
            run = self.outbox.run(self.window.stream, after=after)
            if run is None:
                return
            assert (run.lost[0] if run.lost else run.first) == after + 1, "a gap that isn't declared lost"
            assert not run.lost or run.lost[1] == run.first - 1
            self.window.note_sent(run, now=self.now)
            self.flying.append(run)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def broker_delivers(self, data: st.DataObject) -> None:
        self.acks.append(self.fleet.take(self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))))

    @precondition(lambda self: self.flying)
    @rule()
    def broker_drops(self) -> None:
        self.flying.pop(0)

    @precondition(lambda self: self.acks)
    @rule(is_lost=st.booleans())
    def acknowledgement_arrives(self, is_lost: bool) -> None:
        ack = self.acks.pop(0)
        if not is_lost:
            covered = self.outbox.covered(ack.stream, sequence=ack.sequence)
            self.outbox.acknowledge(ack.stream, sequence=covered)
            self.window.note_acknowledged(replace(ack, sequence=covered), now=self.now)

    @rule()
    def time_is_up(self) -> None:
        wait_s = self.window.wait_s(now=self.now)
        if wait_s is not None:
            self.now += wait_s
            self.window.time_out()

    @rule()
    def connection_comes_back(self) -> None:
        self.window.go_back()

    @rule()
    def daemon_restarts(self) -> None:
        self.outbox.write()
        self.outbox.close()
        self.outbox, self.window = self._open(), Window()

    @rule()
    def power_goes(self) -> None:
        """What is on the disk at this moment is all that is left; nothing was closed."""
        self.unwritten |= {one.row.body for one in self.outbox._held}
        before, self.folder = self.folder, Path(tempfile.mkdtemp(dir=MEMORY))
        for suffix in ("", "-wal"):
            if (before / f"outbox.db{suffix}").exists():
                shutil.copy(before / f"outbox.db{suffix}", self.folder / f"outbox.db{suffix}")
        self.outbox.close()
        shutil.rmtree(before)
        self.outbox, self.window = self._open(), Window()

    @invariant()
    def window_is_bounded(self) -> None:
        assert len(self.window._in_flight) <= WINDOW_BATCHES

    def teardown(self) -> None:
        """With a broker that delivers, everything arrives in the end, in its order and once."""
        for _ in range(200):
            self.send()
            while self.flying:
                self.acks.append(self.fleet.take(self.flying.pop(0)))
            while self.acks:
                self.acknowledgement_arrives(is_lost=False)
            self.window.follow(self.outbox.head())
            if self.window.stream is None:
                break
            self.window.time_out()
        assert self.outbox.head() is None
        self.outbox.write()
        assert (self.outbox.held, self.outbox.size_bytes) == (0, 0)
        arrived = [self.fleet.rows[key] for key in sorted(self.fleet.rows)]
        self.check_arrived(arrived)
        self.outbox.close()
        shutil.rmtree(self.folder)

    def check_arrived(self, arrived: list[bytes]) -> None:
        came = set(arrived)
        assert arrived == [row for row in self.appended if row in came]
        assert set(self.appended) - came <= self.unwritten
        assert not self.fleet.lost


class DeliveringFromSmallOutbox(Delivering):
    """The same where the outbox is soon full."""

    limit_bytes = 700

    def check_arrived(self, arrived: list[bytes]) -> None:
        came = set(arrived)
        assert [row for row in self.appended if row in came] == arrived
        missing = set(self.appended) - came
        assert len(missing - self.unwritten) <= len(self.fleet.lost) <= len(missing)


TestDelivering = Delivering.TestCase
TestDelivering.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestDeliveringFromSmallOutbox = DeliveringFromSmallOutbox.TestCase
TestDeliveringFromSmallOutbox.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_fleet_that_forgot_is_told_what_it_will_never_get(tmp_path: Path) -> None:
    outbox, window, fleet = make_outbox(tmp_path), Window(), FakeFleet()
    append(outbox, [make_event("one"), make_event("two"), make_event("three")])
    outbox.acknowledge("a" * 32, sequence=2)
    append(outbox, [])  # removes what was acknowledged
    window.follow(outbox.head())
    run = outbox.run("a" * 32, after=window.sent)
    assert run is not None and run.lost is None
    window.note_sent(run, now=0.0)
    window.note_acknowledged(fleet.take(run), now=0.0)  # restored from a backup: it has nothing of this stream
    window.time_out()
    again = outbox.run("a" * 32, after=window.sent)
    assert again == Run("a" * 32, 3, (b"three",), (1, 2))
    assert "forgotten" in window.reason_lost(again)
    assert fleet.take(again).sequence == 3
    outbox.close()


def test_rows_that_a_fleet_forgot_are_sent_again_while_they_are_in_the_file(tmp_path: Path) -> None:
    outbox, window, fleet = make_outbox(tmp_path), Window(), FakeFleet()
    append(outbox, [make_event("one"), make_event("two")])
    outbox.acknowledge("a" * 32, sequence=1)
    window.follow(outbox.head())
    run = outbox.run("a" * 32, after=window.sent)
    assert run == Run("a" * 32, 2, (b"two",), None)
    window.note_sent(run, now=0.0)
    window.note_acknowledged(fleet.take(run), now=0.0)  # restored from a backup
    window.time_out()
    assert outbox.run("a" * 32, after=window.sent) == Run("a" * 32, 1, (b"one", b"two"), None)
    outbox.close()


def test_an_acknowledgement_is_written_with_the_next_rows(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event("one"), make_event("two")])
    with sqlite3.connect(tmp_path / "outbox.db") as reader:
        outbox.acknowledge("a" * 32, sequence=2)
        assert outbox.head() is None
        assert count_rows(reader) == 2
        append(outbox, [make_event("three")])
        assert count_rows(reader) == 1
    reader.close()
    outbox.close()


def test_a_row_that_the_fleet_has_by_then_is_never_written(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    assert outbox.hold([make_answer(1), make_answer(2), make_answer(1)]) == [1, 2, 1]
    assert outbox.run("a" * 32, after=0) is not None
    assert outbox.acknowledge("a" * 32, sequence=1)
    with sqlite3.connect(tmp_path / "outbox.db") as reader:
        outbox.write()
        assert count_rows(reader) == 1
    reader.close()
    assert outbox.hold([make_answer(2)]) == [0]
    run = outbox.run("a" * 32, after=1)
    assert run is not None and run.last == 2
    outbox.close()


def test_a_stream_that_the_fleet_knows_more_of_than_the_disk_ends_with_what_is_on_the_disk(tmp_path: Path) -> None:
    """The power went after rows were sent, and before they were written."""
    first = make_outbox(tmp_path)
    append(first, [make_event("one")])
    first.hold([make_event("two")])
    first.close()
    second = make_outbox(tmp_path, stream="b" * 32)
    covered = second.covered("a" * 32, sequence=2)
    assert covered == 1
    assert second.acknowledge("a" * 32, sequence=covered)
    assert second.head() is None
    second.close()


def test_many_acknowledged_rows_are_removed_at_once(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event(f"{number}") for number in range(300)])
    with sqlite3.connect(tmp_path / "outbox.db") as reader:
        outbox.acknowledge("a" * 32, sequence=299)
        assert count_rows(reader) == 1
    reader.close()
    outbox.close()


def count_rows(reader: sqlite3.Connection) -> int:
    (count,) = reader.execute("SELECT COUNT(*) FROM waiting").fetchone()
    return int(count)


def test_an_acknowledgement_of_what_was_never_sent_moves_nothing(tmp_path: Path) -> None:
    outbox, window = make_outbox(tmp_path), Window()
    append(outbox, [make_event("one")])
    window.follow(outbox.head())
    window.note_acknowledged(Ack(device="d-test", stream="a" * 32, sequence=9), now=0.0)
    assert window.sent == 0
    outbox.close()


def test_waits_longer_each_time_until_something_is_acknowledged(tmp_path: Path) -> None:
    window = Window()
    outbox = make_outbox(tmp_path)
    append(outbox, [make_event("one"), make_event("two")])
    waits = []
    for _ in range(6):
        window.follow(outbox.head())
        window.note_sent(Run("a" * 32, 1, (b"one",), None), now=0.0)
        waits.append(window.wait_s(now=0.0))
        window.time_out()
    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    window.note_acknowledged(Ack(device="d-test", stream="a" * 32, sequence=1), now=0.0)
    window.note_sent(Run("a" * 32, 2, (b"two",), None), now=0.0)
    assert window.wait_s(now=0.0) == 5.0
    outbox.close()
