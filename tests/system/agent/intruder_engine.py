"""An engine that tries to get out of its worker, as a model that took it over would.

Installed as a plug-in named `intruder`. Its model is a JSON object: `state`, a folder with `key` in it; `scratch`, a
folder that anybody may write to. Its only run tries everything and answers with the error number of each attempt, 0 for
what came through, in the order of the attempts. Run as a program with such an object, it tries what it does to files
without a worker around it, and prints that by name.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMATS = {"intruder": 1}
NUMBERS = {
    "x86_64": {"keyctl": 250, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "unshare": 272, "mount": 165},
    "aarch64": {"keyctl": 219, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "unshare": 97, "mount": 40},
}
IO_URING_SETUP, PIDFD_OPEN, CLONE_NEWUSER = 425, 434, 0x10000000
PTRACE_SEIZE, PR_SET_DUMPABLE, IPC_PRIVATE = 0x4206, 4, 0

Attempt = Callable[[], object]


def file_attempts(state: Path, scratch: Path) -> dict[str, Attempt]:
    """Each comes through for a program that nobody holds."""
    key, shared = state / "key", Path("/dev/shm") / f"intruder-{os.getpid()}"
    return {
        "list the state folder": lambda: os.listdir(state),
        "read the device's key": key.read_bytes,
        "append to a file of the state folder": lambda: os.close(os.open(key, os.O_WRONLY | os.O_APPEND)),
        "cut a file of the state folder": lambda: os.truncate(key, 3),
        "open a file of the state folder to let others read it": lambda: key.chmod(0o644),
        "date a file of the state folder back": lambda: os.utime(key, (1, 1)),
        "make a file in the state folder": lambda: (state / "made").write_bytes(b"weights"),
        "make a file for everybody": lambda: (scratch / "made").write_bytes(b"weights"),
        "make a link for everybody": lambda: (scratch / "link").symlink_to("/nowhere"),
        "make a folder for everybody": lambda: (scratch / "folder").mkdir(),
        "make a pipe for everybody": lambda: os.mkfifo(scratch / "pipe"),
        "remove somebody's file": (scratch / "theirs").unlink,
        "rename somebody's file": lambda: (scratch / "other").rename(scratch / "another"),
        "share memory under a name": lambda: _write_and_remove(shared),
        "read what others do": lambda: Path(f"/proc/{os.getppid()}/cmdline").read_bytes(),
    }


def other_attempts() -> dict[str, Attempt]:
    """Most come through for root where nobody holds it."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = NUMBERS[platform.machine()]

    def call(name: str, *arguments: object) -> Attempt:
        def attempt() -> None:
            if getattr(libc, name)(*arguments) < 0:
                raise OSError(ctypes.get_errno(), name)

        return attempt

    def read_parent() -> None:
        local = ctypes.create_string_buffer(8)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(local), 8)
        if libc.process_vm_readv(parent, vector, 1, vector, 1, 0) < 0:
            raise OSError(ctypes.get_errno(), "process_vm_readv")

    def own_by_parent() -> None:
        with open(os.devnull, "rb") as file:
            fcntl.fcntl(file, fcntl.F_SETOWN, parent)

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return {
        "open an IPv4 socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "open an IPv6 socket": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close(),
        "open a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "open a Unix socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
        "make a pair of sockets": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].close(),
        "have the kernel signal its parent": own_by_parent,
        "run a program in its place": lambda: os.execv("/bin/false", ["false"]),
        "start a program": lambda: subprocess.run(["/bin/true"], check=True),
        "spawn a shell": lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {}),
        "fork": fork,
        "signal its parent": lambda: os.kill(parent, 0),
        "trace its parent": call("ptrace", PTRACE_SEIZE, parent, None, None),
        "read its parent's memory": read_parent,
        "open its parent's memory": lambda: Path(f"/proc/{parent}/mem").open("rb").close(),
        "read its parent's variables": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "list its parent's files": lambda: os.listdir(f"/proc/{parent}/fd"),
        "hold on to its parent": call("syscall", ctypes.c_long(PIDFD_OPEN), parent, 0),
        "be dumped": call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0),
        "leave memory behind": call("shmget", IPC_PRIVATE, ctypes.c_size_t(4096), 0o600),
        "mount": call("syscall", ctypes.c_long(numbers["mount"]), b"none", b"/", b"tmpfs", 0, None),
        "become root of a namespace": call("syscall", ctypes.c_long(numbers["unshare"]), CLONE_NEWUSER),
        "ask for keys": call("syscall", ctypes.c_long(numbers["keyctl"]), 0, -4, 1),
        "load a program into the kernel": call("syscall", ctypes.c_long(numbers["bpf"]), 0, None, 0),
        "handle its own page faults": call("syscall", ctypes.c_long(numbers["userfaultfd"]), 1),
        "watch performance": call("syscall", ctypes.c_long(numbers["perf_event_open"]), None, 0, -1, -1, 0),
        "queue calls past the filter": call("syscall", ctypes.c_long(IO_URING_SETUP), 1, None),
    }


def needs() -> dict[str, Attempt]:
    """What an engine may need, and must be left."""
    return {
        "compute in threads": _run_thread,
        "run code that it made": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
        "make memory files": lambda: os.write(os.memfd_create("own"), b"weights"),
        "map what is in memory by a path": _reopen_memory,
        "ask for the processor": lambda: Path("/sys/devices/system/cpu/online").read_bytes(),
        "ask for the processor by another way": lambda: Path("/proc/cpuinfo").read_bytes(),
        "ask for its own memory": lambda: Path("/proc/self/maps").read_bytes(),
        "write to nowhere": lambda: Path("/dev/null").open("w").close(),
        "load a library": lambda: ctypes.CDLL("libm.so.6"),
        "import a module": lambda: __import__("wave"),
        "stop itself": lambda: signal.raise_signal(signal.SIGCONT),
    }


def _write_and_remove(path: Path) -> None:
    path.write_bytes(b"weights")
    path.unlink()


def _run_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def _reopen_memory() -> None:
    fd = os.memfd_create("own")
    os.write(fd, b"weights")
    assert Path(f"/proc/self/fd/{fd}").read_bytes() == b"weights"


def errors_of(attempts: Mapping[str, Attempt]) -> dict[str, int]:
    """Error number of each attempt; 0 for one that came through."""
    found = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as error:
            found[name] = error.errno or -1
        else:
            found[name] = 0
    return found


def all_attempts(model: Mapping[str, str]) -> dict[str, Attempt]:
    return {**file_attempts(Path(model["state"]), Path(model["scratch"])), **other_attempts(), **needs()}


class IntruderEngine:
    version = "1"
    placement = ("cpu",)
    devices = ("cpu",)
    plan = None

    def __init__(self, model: Mapping[str, str]) -> None:
        from shoal_worker.messages import TensorSpec

        self.attempts = all_attempts(model)
        self.inputs = (TensorSpec("x", "float32", (1,)),)
        self.outputs = (TensorSpec("errors", "int32", (len(self.attempts),)),)

    def prepare(self, feeds: Mapping[str, Any]) -> IntruderEngine:
        return self

    def run(self) -> dict[str, Any]:
        import numpy as np

        return {"errors": np.array(list(errors_of(self.attempts).values()), np.int32)}

    def cancel(self) -> None:
        """It has nothing to lose."""


def load(request: Any, *, files: Sequence[bytes]) -> IntruderEngine:
    return IntruderEngine(json.loads(files[0]))


if __name__ == "__main__":
    unheld = json.loads(sys.argv[1])
    print(json.dumps(errors_of(file_attempts(Path(unheld["state"]), Path(unheld["scratch"])))))
