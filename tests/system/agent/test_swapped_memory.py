"""Does a worker under memory pressure keep its model out of a swap file?

A control group without memory left pushes out whatever it can; another program of the same group shows that it does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from shoal_agent.swap import disk_swaps

from tests.onnx_bytes import matmul_chain_model
from tests.system.agent.engine_board import WAIT_S, worker_of

pytestmark = pytest.mark.timeout(180)

SWAP_BYTES = LIMIT_BYTES = 128 << 20
PRESSURE_MB = 120
MORE_PRESSURE_MB = 190
"""So much that hardly a page of anything else is left, and less than group and swap hold together."""
MARK = bytes(range(7, 71))
"""A line of a model that nothing else holds."""
OLD, NEW = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class Group(NamedTuple):
    folder: Path

    def add(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    """A control group of either version, with little memory."""
    is_old = OLD.is_dir()
    folder = (OLD if is_old else NEW) / f"shoal-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if is_old else "memory.max")).write_text(str(LIMIT_BYTES))
        if is_old:
            (folder / "memory.swappiness").write_text("100")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group with a memory limit can be made here: {error}")
    yield Group(folder)
    folder.rmdir()


@pytest.fixture(scope="module")
def swap_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mkswap") is None or shutil.which("swapon") is None:
        pytest.skip("only root may have the system swap to another file, with mkswap and swapon")
    path = tmp_path_factory.mktemp("swap") / "swap"
    with path.open("wb") as file:  # really: what is only reserved reads as zeros, whatever is swapped there
        for _ in range(SWAP_BYTES >> 20):
            file.write(bytes(1 << 20))
        os.fsync(file.fileno())
    path.chmod(0o600)
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    done = subprocess.run(["swapon", path], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the system can't swap to a file here: {done.stderr.strip()}")
    yield path
    subprocess.run(["swapoff", path], check=True)


def start(program: str, group: Group) -> subprocess.Popen[str]:
    """A program in the group, once it has said that it is there."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    group.add(process.pid)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "there\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def holder(*, is_locked: bool) -> str:
    """A program that holds a marked memory file, as a front does, in as much memory as a model takes."""
    return f"""
        import sys
        from shoal_agent.swap import hold
        from shoal_worker.memory import seal_bytes
        from shoal_worker.process import lock_memory
        sys.stdin.readline()
        if {is_locked}:
            assert lock_memory()
        weights = bytearray(bytes(range(7, 71)) * (16 << 14))
        model = seal_bytes(weights)
        held = hold([model]) if {is_locked} else ()
        print("there", flush=True)
        sys.stdin.readline()
    """


PRESSURE = """
    import sys
    sys.stdin.readline()
    memory = bytearray({megabytes} << 20)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    print("there", flush=True)
    sys.stdin.readline()
"""


def press(group: Group, *, megabytes: int) -> None:
    end(start(PRESSURE.format(megabytes=megabytes), group))
    os.sync()


def has_mark(path: Path) -> bool:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # swapping goes past what was read before
        while piece := file.read(1 << 20):
            if MARK * 2 in piece:
                return True
    return False


def swapped_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSwap:"))


def test_locked_memory_and_memory_files_stay_out_of_a_swap_file_that_takes_others(
    group: Group, swap_file: Path
) -> None:
    assert str(swap_file) in disk_swaps()
    locked = start(holder(is_locked=True), group)
    try:
        press(group, megabytes=PRESSURE_MB)
        assert swapped_bytes(locked.pid) == 0
        assert not has_mark(swap_file)
    finally:
        end(locked)
    unlocked = start(holder(is_locked=False), group)
    try:
        press(group, megabytes=MORE_PRESSURE_MB)
        assert has_mark(swap_file), "without the lock it is swapped, so the search is good for something"
    finally:
        end(unlocked)


def test_worker_under_pressure_is_not_swapped(group: Group, swap_file: Path) -> None:
    model = matmul_chain_model(size=512, length=8)
    with worker_of("onnxruntime", model, model_format="onnx") as worker:
        group.add(worker.pid)
        feeds = {"x": np.zeros((512, 512), np.float32)}
        worker.run(feeds, deadline_s=WAIT_S)
        press(group, megabytes=PRESSURE_MB)
        assert swapped_bytes(worker.pid) == 0
        worker.run(feeds, deadline_s=WAIT_S)
