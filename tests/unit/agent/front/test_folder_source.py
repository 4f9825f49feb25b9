"""Is every file of a folder answered once, with two under way and no more waiting than may?"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shoal_agent.front.folder_source import MAX_WAITING, UNDER_WAY, FolderSource, Model
from shoal_agent.front.serving_model import Answered
from shoal_agent.front.suspects import Suspects
from shoal_wire.messages import Answer, ReleaseReference

WAIT_S = 60.0
REFERENCE = ReleaseReference("echo", 1, "0" * 64)


class Echo:
    """A slot whose model answers an item with its own text, after `during` was called."""

    def __init__(self) -> None:
        self.during: Callable[[], object] = lambda: None

    def serving(self, timeout_s: float) -> tuple[ReleaseReference, Model]:
        return REFERENCE, self

    def answer(self, raw: bytes, *, item_sha256: str) -> Answered:
        self.during()
        return Answered({"text": raw.decode()}, "", 1.0, ())


class Outbox:
    """Stores answers when the test says so."""

    def __init__(self) -> None:
        self.source: FolderSource | None = None
        self.is_open = True
        self.answers: list[Answer] = []
        self.waiting: list[str] = []
        self.most_waiting = 0
        self.lock = threading.Lock()

    def deliver(self, answer: Answer) -> None:
        with self.lock:
            self.answers.append(answer)
            self.waiting.append(answer.answer_id)
            self.most_waiting = max(self.most_waiting, len(self.waiting))
        if self.is_open:
            self.store(1)

    def store(self, count: int) -> None:
        assert self.source is not None
        with self.lock:
            stored, self.waiting = self.waiting[:count], self.waiting[count:]
        for answer_id in stored:
            self.source.mark_stored(answer_id)

    def texts(self) -> list[str]:
        with self.lock:
            return sorted(answer.answer["text"] for answer in self.answers)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def source(tmp_path: Path, echo: Echo, outbox: Outbox) -> Iterator[FolderSource]:
    """Of `tmp_path`; not started yet."""
    source = FolderSource("texts", tmp_path, device="d", slot=echo, suspects=Suspects({}), deliver=outbox.deliver)
    outbox.source = source
    yield source
    source.stop()


def place(folder: Path, name: str, text: str) -> None:
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").replace(folder / name)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def test_two_items_are_under_way_at_once(tmp_path: Path, source: FolderSource, echo: Echo, outbox: Outbox) -> None:
    meeting = threading.Barrier(UNDER_WAY)
    echo.during = lambda: meeting.wait(WAIT_S)  # ends only once both are there
    for number in range(2 * UNDER_WAY):
        place(tmp_path, f"{number}.txt", str(number))
    source.start()
    wait_until(lambda: len(outbox.texts()) == 2 * UNDER_WAY)
    assert outbox.texts() == ["0", "1", "2", "3"]


def test_every_item_is_answered_once_while_more_come(tmp_path: Path, source: FolderSource, outbox: Outbox) -> None:
    source.start()
    names = [f"{number:03}" for number in range(150)]
    for name in names:
        place(tmp_path, name, name)
    wait_until(lambda: not list(tmp_path.iterdir()))
    assert outbox.texts() == names


def test_no_more_items_are_taken_than_may_wait(tmp_path: Path, source: FolderSource, outbox: Outbox) -> None:
    outbox.is_open = False
    names = [f"{number:03}" for number in range(MAX_WAITING + 10)]
    for name in names:
        place(tmp_path, name, name)
    source.start()
    wait_until(lambda: len(outbox.texts()) == MAX_WAITING)
    outbox.store(3)
    wait_until(lambda: len(outbox.texts()) == MAX_WAITING + 3)
    outbox.store(MAX_WAITING)
    wait_until(lambda: outbox.texts() == names)
    assert outbox.most_waiting <= MAX_WAITING


def test_file_that_takes_the_name_of_one_under_way_is_another_item(
    tmp_path: Path, source: FolderSource, echo: Echo, outbox: Outbox
) -> None:
    taken, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        taken.set()
        assert go_on.wait(WAIT_S)

    echo.during = wait
    place(tmp_path, "a.txt", "first")
    source.start()
    assert taken.wait(WAIT_S)
    place(tmp_path, "a.txt", "second")
    go_on.set()
    wait_until(lambda: not list(tmp_path.iterdir()))
    assert outbox.texts() == ["first", "second"]


def test_folder_that_comes_back_is_read_again(
    tmp_path: Path, source: FolderSource, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    source.start()
    away = tmp_path.with_name("away")
    tmp_path.rename(away)
    wait_until(lambda: "can't be read" in caplog.text)
    (away / "a.txt").write_text("a")
    away.rename(tmp_path)
    wait_until(lambda: outbox.texts() == ["a"])
