"""Does a file come whole over a line that breaks, and does a wrong one never get into the store?

The source is a stand-in for the fleet's listener that implements the same interface, without sockets.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from shoal_agent.files import DiskFiles
from shoal_agent.updater.errors import Refused, Superseded, TryLater
from shoal_agent.updater.fetch import AskedToWait, Patience, Watch, fetch_file
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.records import Records
from shoal_wire.manifest import SealedFile
from shoal_wire.sealed_file import digest, seal

CHUNK = 1024
PARTS = list(seal(bytes(range(256)) * 16, bytes(32), chunk_bytes=CHUNK))
SEALED = b"".join(PARTS)
ENDS = list(itertools.accumulate(map(len, PARTS)))[1:]
"""Where each of the four chunks ends."""
_DIGESTS = digest(PARTS)
FILE = SealedFile(
    name="model",
    role="model",
    plaintext_sha256="0" * 64,
    plaintext_bytes=4096,
    ciphertext_sha256=_DIGESTS.ciphertext_sha256,
    ciphertext_bytes=_DIGESTS.ciphertext_bytes,
    chunk_bytes=CHUNK,
    chunk_sha256s=_DIGESTS.chunk_sha256s,
    suite="aes-256-gcm",
)
URL = "https://fleet.test"


class SimulatedSource:
    """The listener for devices. `breaks` says after how many bytes each answer breaks; after those, none does."""

    def __init__(self, data: bytes = SEALED, *, breaks: list[int] | None = None, piece_bytes: int = 300) -> None:
        self.url = URL
        self.data = data
        self.breaks = breaks or []
        self.piece_bytes = piece_bytes
        self.asked: list[int] = []
        self.sent_bytes = 0

    @contextmanager
    def get(self, url: str, *, start: int = 0) -> Iterator[Answer]:
        assert url == f"{URL}/v1/sealed/{FILE.ciphertext_sha256}"
        self.asked.append(start)
        yield self.answer(start)

    def answer(self, start: int) -> Answer:
        if start >= len(self.data):
            return Answer(416, f"bytes */{len(self.data)}", 0, iter(()))
        rest = f"bytes {start}-{len(self.data) - 1}/{len(self.data)}" if start else None
        return Answer(206 if start else 200, rest, len(self.data) - start, self.pieces(self.data[start:]))

    def pieces(self, body: bytes) -> Iterator[bytes]:
        limit = self.breaks.pop(0) if self.breaks else len(body)
        for at in range(0, min(limit, len(body)), self.piece_bytes):
            piece = body[at : min(at + self.piece_bytes, limit)]
            self.sent_bytes += len(piece)
            yield piece
        if limit < len(body):
            raise TryLater("the connection broke")


class WithoutRanges(SimulatedSource):
    """Answers every request from the first byte."""

    def answer(self, start: int) -> Answer:
        return super().answer(0)


class Endless(SimulatedSource):
    """Never ends and doesn't say how long it is."""

    def answer(self, start: int) -> Answer:
        return Answer(200, None, None, self.pieces_without_end())

    def pieces_without_end(self) -> Iterator[bytes]:
        for at in itertools.count(0, self.piece_bytes):
            self.sent_bytes += self.piece_bytes
            yield (self.data + bytes(self.piece_bytes))[at : at + self.piece_bytes] or bytes(self.piece_bytes)


class Status(SimulatedSource):
    """Answers with a status only."""

    def __init__(self, status: int, *, retry_after_s: float | None = None) -> None:
        super().__init__()
        self.status = status
        self.retry_after_s = retry_after_s

    def answer(self, start: int) -> Answer:
        return Answer(self.status, None, 0, iter(()), self.retry_after_s)


class Fetch:
    """A store and one attempt after another to fetch the file into it."""

    def __init__(self, state: Path) -> None:
        self.records = Records(state, files=DiskFiles())
        self.pauses: list[float] = []
        self.fetched: list[int] = []
        self.part = state / "store" / f"{FILE.ciphertext_sha256}.part"
        self.whole = state / "store" / FILE.ciphertext_sha256

    def run(
        self,
        source: SimulatedSource,
        *,
        file: SealedFile = FILE,
        pulse: Callable[[], None] = lambda: None,
        tries: int = 3,
    ) -> None:
        watch = Watch(pulse=pulse, pause=self.pauses.append, fetched=self.fetched.append)
        fetch_file(file, source=source, records=self.records, watch=watch, patience=Patience(tries, 2.0))

    def leave(self, data: bytes) -> None:
        """What an earlier start left."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(data)


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path)


def test_file_comes_whole_and_its_beginning_is_gone(fetch: Fetch) -> None:
    fetch.run(SimulatedSource())
    assert fetch.whole.read_bytes() == SEALED
    assert not fetch.part.exists()
    assert sum(fetch.fetched) == len(SEALED)


def test_broken_line_is_gone_on_with_from_the_byte_where_it_broke(fetch: Fetch) -> None:
    source = SimulatedSource(breaks=[1500, 700])
    fetch.run(source)
    assert source.asked == [0, 1500, 2200]
    assert source.sent_bytes == len(SEALED)
    assert fetch.whole.read_bytes() == SEALED


def test_updater_that_was_ended_goes_on_where_it_was(fetch: Fetch) -> None:
    with pytest.raises(TryLater):
        fetch.run(SimulatedSource(breaks=[1500, 0, 0, 0]))
    source = SimulatedSource()
    fetch.run(source)
    assert source.asked == [1500]
    assert fetch.whole.read_bytes() == SEALED


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(breaks=st.lists(st.integers(0, len(SEALED)), max_size=30), piece_bytes=st.integers(1, 2 * CHUNK))
def test_any_breaks_and_pieces_give_the_same_file(
    breaks: list[int], piece_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fetch = Fetch(tmp_path_factory.mktemp("state"))
    source = SimulatedSource(breaks=breaks, piece_bytes=piece_bytes)
    fetch.run(source, tries=len(breaks) + 1)
    assert fetch.whole.read_bytes() == SEALED
    assert source.sent_bytes == len(SEALED)


def test_line_that_is_down_is_tried_a_few_times_with_growing_pauses(fetch: Fetch) -> None:
    with pytest.raises(TryLater, match="the connection broke"):
        fetch.run(SimulatedSource(breaks=[0, 0, 0]))
    first, second = fetch.pauses
    assert 1.0 <= first <= 3.0 and 2.0 <= second <= 6.0


def test_progress_renews_patience(fetch: Fetch) -> None:
    fetch.run(SimulatedSource(breaks=[100] * 30))
    assert fetch.whole.read_bytes() == SEALED


@pytest.mark.parametrize("left", [ENDS[0], ENDS[1], ENDS[1] + 100, len(SEALED)])
def test_beginning_that_is_good_is_kept(left: int, fetch: Fetch) -> None:
    fetch.leave(SEALED[:left])
    source = SimulatedSource()
    fetch.run(source)
    assert source.sent_bytes == len(SEALED) - left


def test_damaged_chunk_of_a_beginning_is_dropped_and_those_before_it_are_kept(fetch: Fetch) -> None:
    fetch.leave(SEALED[: ENDS[0]] + bytes(ENDS[1] - ENDS[0]) + SEALED[ENDS[1] : ENDS[2]])
    source = SimulatedSource()
    fetch.run(source)
    assert source.asked == [ENDS[0]]
    assert fetch.whole.read_bytes() == SEALED


def test_damaged_beginning_of_a_chunk_costs_that_chunk_alone(fetch: Fetch) -> None:
    fetch.leave(SEALED[: ENDS[1]] + bytes(100))
    source = SimulatedSource()
    fetch.run(source)
    assert source.asked == [ENDS[1] + 100, ENDS[1]]
    assert fetch.whole.read_bytes() == SEALED


def test_beginning_that_is_longer_than_the_file_is_fetched_anew(fetch: Fetch) -> None:
    fetch.leave(SEALED + b"more")
    fetch.run(SimulatedSource())
    assert fetch.whole.read_bytes() == SEALED


def test_server_without_ranges_is_read_from_the_start(fetch: Fetch) -> None:
    fetch.leave(SEALED[: ENDS[2]])
    fetch.run(WithoutRanges())
    assert fetch.whole.read_bytes() == SEALED


def test_endless_answer_is_left_at_the_size_of_the_file(fetch: Fetch) -> None:
    source = Endless()
    fetch.run(source)
    assert source.sent_bytes < len(SEALED) + source.piece_bytes
    assert fetch.whole.read_bytes() == SEALED


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (SEALED[:-1], f"file model: expected {len(SEALED)} bytes, the fleet has {len(SEALED) - 1}"),
        (SEALED + b"x", f"file model: expected {len(SEALED)} bytes, the fleet has {len(SEALED) + 1}"),
        (SEALED[:-1] + b"x", "file model: chunk 3 of 4 came other than it was sealed"),
        (bytes(len(SEALED)), "file model: chunk 0 of 4 came other than it was sealed"),
    ],
)
def test_other_bytes_than_were_sealed_are_refused_after_a_few_tries(data: bytes, reason: str, fetch: Fetch) -> None:
    source = SimulatedSource(data)
    with pytest.raises(Refused) as caught:
        fetch.run(source)
    assert str(caught.value) == f"{reason}; tried 3 times"
    assert len(source.asked) == 3
    assert not fetch.whole.exists()


def test_shorter_file_than_what_is_here_already_is_refused(fetch: Fetch) -> None:
    fetch.leave(SEALED[: ENDS[2]])
    with pytest.raises(Refused, match=f"the fleet has at most {ENDS[2]}"):
        fetch.run(SimulatedSource(SEALED[: ENDS[1]]))


@pytest.mark.parametrize("status", [403, 404, 500, 503, 302])
def test_any_other_status_is_tried_again_later(status: int, fetch: Fetch) -> None:
    with pytest.raises(TryLater, match=f"status {status}"):
        fetch.run(Status(status))


@pytest.mark.parametrize("status", [429, 503])
def test_busy_fleet_that_says_when_to_come_again_is_asked_once(status: int, fetch: Fetch) -> None:
    source = Status(status, retry_after_s=120.0)
    with pytest.raises(AskedToWait, match="asked to come again in 120 s") as caught:
        fetch.run(source)
    assert caught.value.wait_s == 120.0
    assert source.asked == [0] and fetch.pauses == []


def test_line_that_breaks_every_few_bytes_for_a_day_finishes(fetch: Fetch) -> None:
    """Each answer brings seven bytes, far less than a chunk, and every third start of the updater finds no line."""
    starts = 0
    while not fetch.whole.exists():
        source = SimulatedSource(breaks=[0, 0, 0] if starts % 3 == 2 else [7] * 20 + [0, 0, 0])
        with contextlib.suppress(TryLater):
            fetch.run(source)
        starts += 1
        assert starts < len(SEALED), "it makes no progress"
    assert fetch.whole.read_bytes() == SEALED
    assert sum(fetch.fetched) == len(SEALED)


def test_newer_document_ends_the_fetch_and_keeps_what_has_come(fetch: Fetch) -> None:
    pulses = itertools.count()

    def pulse() -> None:
        if next(pulses) == 7:
            raise Superseded("a newer desired document came")

    with pytest.raises(Superseded):
        fetch.run(SimulatedSource(), pulse=pulse)
    assert fetch.part.read_bytes() == SEALED[: 7 * 300]


def test_manifest_whose_chunks_and_whole_contradict_each_other_is_refused(fetch: Fetch) -> None:
    class Any(SimulatedSource):
        @contextmanager
        def get(self, url: str, *, start: int = 0) -> Iterator[Answer]:
            yield self.answer(start)

    wrong = replace(FILE, ciphertext_sha256=hashlib.sha256(b"else").hexdigest())
    with pytest.raises(Refused, match="the manifest is wrong"):
        fetch.run(Any(), file=wrong)
    assert list(fetch.whole.parent.iterdir()) == []
