"""Does each run get a lane and its turn, in the order in which they were sent?"""

import socket
import threading
from collections.abc import Iterator

import pytest
from shoal_agent.front.run_line import RunLine
from shoal_agent.front.worker_process import WorkerEnded
from shoal_worker.channel import Channel
from shoal_worker.messages import LANES

WAIT_S = 60.0


@pytest.fixture
def line() -> Iterator[RunLine]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield RunLine(channel, pid=7)
    channel.close()
    theirs.close()


def test_lane_is_given_to_the_next_when_it_is_free(line: RunLine) -> None:
    lanes = [line.take_lane() for _ in range(LANES)]
    taken: list[int] = []
    waiting = threading.Thread(target=lambda: taken.append(line.take_lane().number))
    waiting.start()
    line.give_lane(lanes[1])
    waiting.join(WAIT_S)
    assert taken == [lanes[1].number]


def test_one_run_at_a_time_uses_one_lane(line: RunLine) -> None:
    numbers = set()
    for _ in range(5):
        lane = line.take_lane()
        numbers.add(lane.number)
        line.give_lane(lane)
    assert len(numbers) == 1 and line.is_idle()


def test_turn_comes_when_those_before_have_left(line: RunLine) -> None:
    first, second = line.join(), line.join()
    heard: list[int] = []

    def hear() -> None:
        line.await_turn(second)
        heard.append(second)

    thread = threading.Thread(target=hear)
    thread.start()
    line.await_turn(first)
    heard.append(first)
    line.leave(first)
    thread.join(WAIT_S)
    assert heard == [first, second]


def test_run_that_leaves_the_line_is_not_waited_for(line: RunLine) -> None:
    first, second, third = line.join(), line.join(), line.join()
    line.leave(second)
    line.leave(first)
    line.await_turn(third)


def test_end_of_the_worker_is_said_once_and_to_all_who_wait(line: RunLine) -> None:
    line.join()
    behind = line.join()
    told: list[str] = []

    def wait() -> None:
        with pytest.raises(WorkerEnded) as caught:
            line.await_turn(behind)
        told.append(str(caught.value))

    thread = threading.Thread(target=wait)
    thread.start()
    assert line.end("it crashed") and not line.end("it was closed")
    thread.join(WAIT_S)
    assert told == ["it crashed"]
    with pytest.raises(WorkerEnded, match="it crashed"):
        line.take_lane()


def test_closing_waits_for_runs_and_admits_none(line: RunLine) -> None:
    lane = line.take_lane()
    assert not line.close(drain_s=0)
    with pytest.raises(WorkerEnded, match="worker 7 was closed"):
        line.take_lane()
    line.give_lane(lane)
    assert line.close(drain_s=0)
