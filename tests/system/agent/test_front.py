"""A real front with a real worker and a real model, driven as the daemon drives it: does every item get one answer?"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shoal_agent import front_messages as messages
from shoal_agent.front.operations.pipeline import compare
from shoal_converters.note_events.evaluation import play
from shoal_wire.manifest import Operation

from tests.system.agent.front_board import DEADLINE_S, Board, send

COMPUTING_S = 0.3
"""Processor time after which a worker is in the middle of a sound of release 3, which takes seconds."""


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


def kill_busy_workers(front: int, *, count: int) -> None:
    """Kill so many workers, one after the other, each while it computes."""
    began_s: dict[int, float] = {}
    killed: set[int] = set()

    def kill_next() -> bool:
        for worker in set(children(front)) - killed:
            if worker in began_s and processor_seconds(worker) > began_s[worker] + COMPUTING_S:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
            elif worker not in began_s and has_got_tensors(worker):
                began_s[worker] = processor_seconds(worker)
        return len(killed) == count

    wait_until(kill_next)


def has_got_tensors(worker: int) -> bool:
    """A worker maps the memory for tensors when it gets the first ones."""
    with contextlib.suppress(OSError):
        return "shoal-tensors" in Path(f"/proc/{worker}/maps").read_text()
    return False


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

    answers = board.follow_answers(channel, 2)

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
    refused, good = board.follow_answers(channel, 2)
    assert "WAV" in refused.answer["error"] and "notes" in good.answer
    health = board.follow(channel, until=lambda message: isinstance(message, messages.Health))
    assert (health.answers, health.errors, health.deaths) == (1, 0, 0)


def test_name_that_is_not_utf8_is_answered(board: Board, release_folders: Path) -> None:
    board.place(os.fsdecode(b"\xff.wav"), b"this is no sound")
    channel, _ = board.start_front()
    board.load(channel, board.hold(release_folders / "release-1"))
    (answer,) = board.follow_answers(channel, 1)
    assert answer.item == "\\xff.wav" and "error" in answer.answer


def test_killed_worker_costs_no_sound(board: Board, release_folders: Path) -> None:
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-3"))
    expected = board.place("s.wav", play(7_000).wav)
    kill_busy_workers(front.pid, count=1)
    (answer,) = board.follow_answers(channel, 1)
    assert answer.answer_id == expected and "notes" in answer.answer
    health = board.follow(channel, until=lambda message: isinstance(message, messages.Health))
    assert health.deaths == 1


def test_sound_in_flight_at_two_deaths_is_quarantined(board: Board, release_folders: Path) -> None:
    channel, front = board.start_front()
    board.load(channel, board.hold(release_folders / "release-3"))
    board.place("s.wav", play(7_000).wav)
    kill_busy_workers(front.pid, count=2)
    (answer,) = board.follow_answers(channel, 1)
    assert "signal 9" in answer.answer["error"]


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
