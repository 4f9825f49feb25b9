"""Does a process get idle time only for as long as it may take?"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_agent.front import priority

WAIT_S = 60.0
PROGRAM = "import threading; threading.Thread(target=input).start(); print(flush=True); input()"


@pytest.fixture
def pid() -> Iterator[int]:
    """A process of two threads that waits."""
    if not priority.can_restore():
        pytest.skip("this user may not take idle time back (CAP_SYS_NICE, or RLIMIT_NICE)")
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def policies(pid: int) -> list[int]:
    return [os.sched_getscheduler(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


def test_idle_time_is_for_the_block_and_for_every_thread(pid: int) -> None:
    with priority.idle_time(pid, at_most_s=WAIT_S):
        assert policies(pid) == [os.SCHED_IDLE] * 2
    assert policies(pid) == [os.SCHED_OTHER] * 2


def test_idle_time_ends_when_it_took_too_long(pid: int) -> None:
    with priority.idle_time(pid, at_most_s=0.01):
        deadline = time.monotonic() + WAIT_S
        while policies(pid) != [os.SCHED_OTHER] * 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
