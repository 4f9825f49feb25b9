"""How does a child process of the agent end with its parent, and leave none of its memory on a disk?

PDEATHSIG (prctl(2)) is sent when the *thread* that made the child ends, not the process. A front may start
workers from threads that come and go, so `start_child` makes every child from one thread that lives as long
as the process does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_DUMPABLE = 4
LOCK_PRESENT, LOCK_FUTURE, LOCK_ON_FAULT = 1, 2, 4  # mlockall(2)
CAP_IPC_LOCK = 14  # linux/capability.h
OOM_POINTS_MOST = 1000

_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")  # its thread starts with the first child


def start_child(
    command: Sequence[str], *, fds: Sequence[int], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program that inherits `fds`, standard error, and of the environment only what is given.

    The child must call `die_with_parent` itself. Standard input and output are /dev/null.

    Raises:
        OSError: the program can't be started.
    """
    return _SPAWNER.submit(
        subprocess.Popen,
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=tuple(fds),
        env=dict(environment),
    ).result()


def die_with_parent(expected_parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once if that has happened already.

    Raises:
        SystemExit: the parent ended before this call.
        OSError: the kernel refused.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected_parent_pid:
        raise SystemExit(f"parent process {expected_parent_pid} has ended, found {os.getppid()} in its place")


def disable_core_dumps() -> None:
    """Keep this process's memory (weights, keys) out of core files and away from debuggers of the same user.

    Raises:
        OSError: the kernel refused.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(PR_SET_DUMPABLE, 0)  # covers a core pattern that pipes to a program, which the limit doesn't


def lock_memory() -> bool:
    """Keep this process's memory (weights, keys) out of swap, and say whether that was possible.

    It is where this user may lock as much as it likes (RLIMIT_MEMLOCK, or CAP_IPC_LOCK): with less, taking memory would
    fail later on. Only what is used takes memory, as without the lock. Memory files are locked where they are mapped.
    """
    is_unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    if not is_unlimited and not _has_capability(CAP_IPC_LOCK):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mlockall(LOCK_PRESENT | LOCK_FUTURE | LOCK_ON_FAULT) == 0)


def offer_to_oom_killer(points: int) -> None:
    """Have the kernel end this process before its parent, and before others of the board, when memory runs short.

    `points` are added to what was inherited; all of memory is 1,000 (proc(5), oom_score_adj). Before
    `disable_core_dumps`, which leaves the file to root. Where the kernel has no such file, nothing is done.
    """
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text(str(min(OOM_POINTS_MOST, int(path.read_text()) + points)))


def _has_capability(number: int) -> bool:
    """Whether it is in the effective set of this process (proc(5), CapEff)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")
