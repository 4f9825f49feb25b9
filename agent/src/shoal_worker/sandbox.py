"""What can a worker still do once the engine reads a model, and its front once it reads items?

A model is bytes from elsewhere, and an engine is a large parser of them. Before the engine is imported (its threads
begin there, and Landlock binds no thread that is there already), the worker gives up for ever:

    files      reads the system's and its interpreter's folders, /sys and its own part of /proc; writes, makes and runs
               nothing. The agent's state and everybody's data are neither. Memory files without a name stay.
    network    opens no socket of any kind; its channel to the front is open already.
    processes  starts none, signals, traces and reads none but itself.
    devices    accelerators only, and those only where its engine may use one.

Landlock does the files, and more from ABI to ABI; seccomp does the rest, and where the kernel has no Landlock as much
of the files as it can: nothing is made, cut, renamed or removed, and without an accelerator nothing is opened to be
written. What a kernel lacks is told, and the worker goes on.

A front, which decodes pictures and sounds, starts programs and takes files out of folders that may be mounted later. It
gives up sockets but those of its board, and what only seccomp needs to know: looking into other processes, and the
large parts of the kernel that nothing here uses. Its workers inherit that.
"""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from . import landlock, seccomp
from .landlock import READ, USE_DEVICE, Grant
from .seccomp import Condition
from .system_calls import ABSENT, FORBIDDEN, FORBIDDEN_TO_FRONT, Numbers

_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h

_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store", "/sys"),
    # Of /etc only what libraries read: configuration holds secrets.
    *(
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/etc/nsswitch.conf",
        "/etc/passwd",
    ),
    *("/etc/OpenCL", "/etc/vulkan", "/etc/nv_tegra_release", "/etc/os-release"),
    # The process itself, and what a library asks about processor and memory.
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems"),
    *("/proc/sys/vm", "/proc/sys/kernel"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)
_ACCELERATORS = (
    *("/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/nvgpu", "/dev/nvsciipc", "/dev/host1x*", "/dev/dri"),
    *("/dev/accel*", "/dev/dma_heap", "/dev/mali*", "/dev/kgsl*", "/dev/galcore", "/dev/apex_*", "/dev/hailo*"),
    *("/dev/ethosu*", "/dev/rknpu*", "/dev/dxg", "/dev/kfd"),
)
"""Device nodes of GPUs and neural processors. A Coral USB stick or another on the bus isn't among them."""
_ACCELERATOR_FILES = ("/proc/driver", "/proc/devices", "/proc/modules", "/etc/nv*", "/etc/nvidia")
_PROCESSOR_ONLY = {("litert", ""), ("tflite-runtime", ""), ("onnxruntime", "")}
"""Engine and device that need no accelerator; the empty device is what the engine takes unasked."""
_PROCESSOR_NAMES = ("CPU", "CPUExecutionProvider")


class Confinement(NamedTuple):
    """What holds the process: `parts` that do ("landlock 7", "seccomp"), and `gaps`, each with its reason."""

    parts: tuple[str, ...]
    gaps: tuple[str, ...]


def offered() -> Confinement:
    """What this kernel offers to a worker. Changes nothing."""
    abi, has_filters = landlock.find_abi(), seccomp.is_available(platform.machine())
    return _describe(abi, _NO_LANDLOCK if not abi else "", has_filters, _NO_SECCOMP)


def needs_accelerators(engine: str, device: str) -> bool:
    """Whether a worker needs the nodes of GPUs and the like: all engines but those that compute on the processor."""
    return (engine, "" if device in _PROCESSOR_NAMES else device) not in _PROCESSOR_ONLY


def enter(*, accelerators: bool) -> Confinement:
    """Give up all that this module's docstring lists, for ever. To be called while the process has one thread.

    Raises:
        OSError: the kernel can't even promise that no new privileges are gained.
    """
    _promise_no_new_privileges()
    abi, landlock_error = 0, ""
    try:
        abi = landlock.forbid_all(_grants(accelerators=accelerators))
    except OSError as error:
        landlock_error = error.strerror or str(error)
    rules = seccomp.conditions(pid=os.getpid(), may_make=bool(abi), may_write=bool(abi) or accelerators)
    filter_error = _filter(rules, forbidden=FORBIDDEN, absent=ABSENT)
    return _describe(abi, landlock_error, not filter_error, filter_error)


def enter_front() -> None:
    """Give up what a front never needs, for ever. To be called while the process has one thread.

    Where the kernel takes no filter it goes on without: its workers tell.

    Raises:
        OSError: the kernel can't even promise that no new privileges are gained.
    """
    _promise_no_new_privileges()
    _filter(seccomp.socket_conditions((socket.AF_UNIX,)), forbidden=FORBIDDEN_TO_FRONT, absent={})


def readable_places() -> tuple[str, ...]:
    """All that a worker in this interpreter may read, accelerators aside."""
    return (*_SYSTEM, *readable_folders())


def readable_folders() -> tuple[str, ...]:
    """Folders of the interpreter that runs this, which a worker in it may read, and what they link to elsewhere."""
    own = [str(Path(__file__).parent), str(Path(sys.executable).resolve().parent)]
    own += [sys.prefix, sys.base_prefix, sys.exec_prefix]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    found = [str(Path(entry).resolve()) for entry in (*own, *libraries, *sys.path) if entry]
    linked = [target for entry in sys.path if entry for target in _links_in(entry)]
    return tuple(dict.fromkeys(path for path in (*found, *linked) if path != os.sep))


_NO_LANDLOCK = "this kernel has none, or was started without it"
_NO_SECCOMP = f"this kernel has no filters, or {platform.machine()} isn't known"


def _filter(rules: Sequence[Condition], *, forbidden: Mapping[str, Numbers], absent: Mapping[str, Numbers]) -> str:
    """Have the kernel filter system calls; why it doesn't, empty where it does."""
    machine = platform.machine()
    try:
        seccomp.install_filter(machine, seccomp.make_filter(machine, rules, forbidden=forbidden, absent=absent))
    except KeyError:
        return f"the system calls of {machine} aren't known"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _describe(abi: int, landlock_error: str, has_filters: bool, filter_error: str) -> Confinement:
    parts, gaps = [], []
    if abi:
        parts.append(f"landlock {min(abi, landlock.NEWEST_ABI)}")
    else:
        gaps.append(f"landlock: {landlock_error}")
    if has_filters:
        parts.append("seccomp")
    else:
        gaps.append(f"seccomp: {filter_error}")
    return Confinement(tuple(parts), tuple(gaps))


def _promise_no_new_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"no_new_privs: {os.strerror(error)}")


def _grants(*, accelerators: bool) -> Iterator[Grant]:
    for path in readable_places():
        yield Grant(path, READ)
    yield Grant("/dev/null", USE_DEVICE)
    if accelerators:
        for path in _matching(_ACCELERATORS):
            yield Grant(path, USE_DEVICE)
        for path in _matching(_ACCELERATOR_FILES):
            yield Grant(path, READ)


def _matching(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from glob.glob(pattern)  # noqa: PTH207 (strings in, strings out)


def _links_in(folder: str) -> Iterator[str]:
    """Where the links in a folder of packages lead: some installations put packages elsewhere."""
    try:
        with os.scandir(folder) as entries:
            yield from [str(Path(entry.path).resolve()) for entry in entries if entry.is_symlink()]
    except OSError:  # an archive, or not there
        return
