"""A real front with a real worker and a real model, driven as the daemon drives it: does every item get one answer?"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting
from shoal_agent.front.operations.pipeline import compare
from shoal_converters.note_events.evaluation import play
from shoal_wire.manifest import Operation
from shoal_wire.messages import Answer

from tests.system.agent.front_board import DEADLINE_S, DEVICE, Board, send


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    yield board
    board.close()


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]


def processor_seconds(pid: int) -> float:
    """Time that all threads of a process have computed for (proc(5), fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_item(answers: list[Answer]) -> list[Answer]:
    """Two are under way at once, and the second may come first."""
    return sorted(answers, key=lambda answer: answer.item)


def wait_until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_answers_every_sound_once_and_removes_it_when_stored(board: Board, release_folders: Path) -> None:
    sounds = {f"s{seed}.wav": play(seed) for seed in (7_000, 7_001)}
    ids = [board.place(name, sound.wav) for name, sound in sounds.items()]
    channel, _ = board.start_front()
    serving = board.load(channel, board.hold(release_folders / "release-2"))
    assert isinstance(serving, messages.Serving), serving
    assert serving.engine == "onnxruntime" and serving.placement == ("CPUExecutionProvider",)

    answers = by_item(board.follow_answers(channel, 2))

    assert [answer.answer_id for answer in answers] == ids
    near = Operation("notes.f1", {"onset_tolerance_s": 0.05, "minimum_f1": 0.9})
    for answer, sound in zip(answers, sounds.values(), strict=True):
        verdict = compare(near, answer=answer.answer, expected=sound.expected)
        assert verdict.passed, verdict.words
    wait_until(lambda: list(board.inbox.iterdir()) == [])


def test_item_that_was_not_stored_is_answered_again_with_the_same_id(board: Board, release_folders: Path) -> None:
    expected = board.place("s.wav", play(7_000).wav)
    held = board.hold(release_folders / "release-2")
    for _ in range(2):
        channel, front = board.start_front()
        order = messages.Load(slot="note-events", held=held, store=str(board.store), content_keys=board.keys)
        send(channel, order)
        while not isinstance(message := messages.parse_from_front(channel.receive(DEADLINE_S)[0]), messages.Answers):
            pass
        assert [answer.answer_id for answer in message.items] == [expected]
        front.kill()
        front.wait()
        channel.close()
    assert (board.inbox / "s.wav").exists()


def test_broken_item_gets_an_answer_that_says_so_and_the_next_one_works(board: Board, release_folders: Path) -> None:
    board.place("a.wav", b"this is no sound")
    board.place("b.wav", play(7_000).wav)
    channel, _ = board.start_front()
    board.load(channel, board.hold(release_folders / "release-2"))
    refused, good = by_item(board.follow_answers(channel, 2))
    assert "WAV" in refused.answer["error"] and "notes" in good.answer
    health = board.follow(channel, until=lambda message: isinstance(message, messages.Health))
    assert (health.answers, health.errors, health.deaths) == (1, 0, 0)


def test_folder_among_the_items_is_left_alone(board: Board, release_folders: Path) -> None:
    (board.inbox / "a-folder").mkdir()
    expected = board.place("s.wav", play(7_000).wav)
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-2"))
    (answer,) = board.follow_answers(channel, 1)
    assert answer.answer_id == expected
    wait_until(lambda: [path.name for path in board.inbox.iterdir()] == ["a-folder"])
    assert front.poll() is None


def test_file_that_takes_an_answered_ones_name_is_another_item(board: Board, release_folders: Path) -> None:
    first = board.place("s.wav", play(7_000).wav)
    channel, _ = board.start_front()
    order = messages.Load(
        slot="note-events",
        held=board.hold(release_folders / "release-2"),
        store=str(board.store),
        content_keys=board.keys,
    )
    send(channel, order)
    while not isinstance(message := messages.parse_from_front(channel.receive(DEADLINE_S)[0]), messages.Answers):
        pass
    assert [answer.answer_id for answer in message.items] == [first]
    second = board.place("s.wav", play(7_001).wav)
    send(channel, messages.Stored(answer_ids=(first,)))
    (answer,) = board.follow_answers(channel, 1)
    assert answer.answer_id == second
    wait_until(lambda: list(board.inbox.iterdir()) == [])


def test_name_that_is_not_utf8_is_answered(board: Board, release_folders: Path) -> None:
    board.place(os.fsdecode(b"\xff.wav"), b"this is no sound")
    channel, _ = board.start_front()
    board.load(channel, board.hold(release_folders / "release-1"))
    (answer,) = board.follow_answers(channel, 1)
    assert answer.item == "\\xff.wav" and "error" in answer.answer


def test_killed_worker_costs_no_sound(board: Board, release_folders: Path) -> None:
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-3"))
    (worker,) = children(front.pid)
    before_s = processor_seconds(worker)
    expected = board.place("s.wav", play(7_000).wav)
    wait_until(lambda: processor_seconds(worker) > before_s + 0.3)
    os.kill(worker, signal.SIGKILL)
    (answer,) = board.follow_answers(channel, 1)
    assert answer.answer_id == expected and "notes" in answer.answer
    health = board.follow(channel, until=lambda message: isinstance(message, messages.Health))
    assert health.deaths == 1


def test_killed_worker_that_has_a_spare_costs_no_sound(board: Board, release_folders: Path) -> None:
    settings = {"note-events": SlotSetting(spares=1)}
    board.configuration = messages.Configure(device=DEVICE, threads=1, slots=settings)
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-2"))
    (serving,) = children(front.pid)
    board.follow(channel, until=lambda _: len(children(front.pid)) == 2)
    (spare,) = set(children(front.pid)) - {serving}
    expected = board.place("a.wav", play(7_000).wav)
    board.follow_answers(channel, 1)
    os.kill(serving, signal.SIGKILL)
    board.place("b.wav", play(7_001).wav)
    answers = by_item(board.follow_answers(channel, 2))
    assert answers[0].answer_id == expected and all("notes" in answer.answer for answer in answers)
    assert spare in children(front.pid)


def test_sound_in_flight_at_two_deaths_is_quarantined(board: Board, release_folders: Path) -> None:
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-3"))
    (first,) = children(front.pid)
    running_s = 1.5 * processor_seconds(first) + 0.2  # a worker that computed for that long isn't loading any more
    board.place("s.wav", play(7_000).wav)
    killed: set[int] = set()

    def kill_next() -> bool:
        for worker in set(children(front.pid)) - killed:
            if processor_seconds(worker) > running_s:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        return len(killed) == 2

    wait_until(kill_next)
    (answer,) = board.follow_answers(channel, 1)
    assert "quarantined" in answer.answer["error"] and "signal 9" in answer.answer["error"]


def test_swap_answers_every_sound_and_falls_back_at_once(board: Board, release_folders: Path) -> None:
    first, second = board.hold(release_folders / "release-1"), board.hold(release_folders / "release-2")
    channel, _ = board.start_front()
    board.load(channel, first)
    ids = {board.place(f"s{seed}.wav", play(seed).wav) for seed in range(7_000, 7_008)}
    board.load(channel, second)
    back = board.load(channel, first)
    assert isinstance(back, messages.Serving) and back.reference == first.reference
    send(channel, messages.Unload(slot="note-events", keep=(first.reference.manifest_sha256,)))
    answers = board.follow_answers(channel, 8)
    assert sorted(answer.answer_id for answer in answers) == sorted(ids)


def test_what_cannot_be_loaded_leaves_the_current_release_serving(board: Board, release_folders: Path) -> None:
    good, broken = board.hold(release_folders / "release-1"), board.hold(release_folders / "release-2")
    channel, _ = board.start_front()
    board.load(channel, good)
    for path in board.store.iterdir():
        if path.stat().st_size > 200_000 and path.name in board.keys:
            path.write_bytes(path.read_bytes()[:-1])
    failed = board.load(channel, broken)
    assert isinstance(failed, messages.LoadFailed) and "sealed file" in failed.reason
    board.place("s.wav", play(7_000).wav)
    (answer,) = board.follow_answers(channel, 1)
    assert answer.reference == good.reference


@pytest.mark.parametrize(("version", "passes"), [(1, True), (2, True), (4, False)])
def test_golden_cases_refuse_damaged_weights(board: Board, release_folders: Path, version: int, passes: bool) -> None:
    held = board.hold(release_folders / f"release-{version}")
    channel, front = board.start_front("--check")
    send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert verdict.passed is passes and "golden" in verdict.reason
    assert len(verdict.cases) == 2 and front.wait(DEADLINE_S) == 0


def test_front_and_worker_end_with_the_daemon(board: Board, release_folders: Path) -> None:
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-2"))
    (worker,) = children(front.pid)
    channel.close()
    assert front.wait(DEADLINE_S) == 0
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
