"""How is a conversion run as a program of its own? `python -m shoal_converters.paths.program MODULE`.

A path's module has one function, `convert(request: Request) -> Reply`. It may raise `ConverterError` with a sentence,
which refuses everything that was asked for; whatever else it raises ends the program with a traceback. It imports the
standard library, msgspec, NumPy, `shoal_wire.manifest`, `shoal_converters.errors`, this folder's `messages` and its own
framework, nothing else: the interpreter may be one that has only these.
"""

import ctypes
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import msgspec

from shoal_converters.errors import ConverterError
from shoal_converters.paths.messages import MAX_REQUEST_BYTES, Reply, Request

SILENCED = ("openvino_telemetry",)
"""Packages that report over the network. With None in its place, nobody can import one."""

SETTINGS: Mapping[str, str] = {
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin while they wait take the cores from the others
    "PYTHONHASHSEED": "0",  # the same input gives the same file, also where a tool goes through a set
    "PYTHONUNBUFFERED": "1",  # the last words of a process that crashes
    "PYTHONSAFEPATH": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # rounds otherwise from one CPU to the next
    "CUDA_VISIBLE_DEVICES": "",  # a conversion that found a GPU would give another file
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def choose_environment(threads: int) -> dict[str, str]:
    """Variables that a path's process starts with, beside those of its parent: libraries read them as they load."""
    return {**SETTINGS, **dict.fromkeys(THREAD_LIMITS, f"{threads}")}


def main(arguments: Sequence[str]) -> None:
    """Read a request from stdin, convert, write the reply to what stdout was; by then stdout is stderr."""
    (module,) = arguments
    _die_with_parent()
    for name in SILENCED:
        sys.modules[name] = None  # type: ignore[assignment]
    replies = os.dup(1)
    os.dup2(2, 1)
    request = msgspec.json.decode(sys.stdin.buffer.read(MAX_REQUEST_BYTES), type=Request)
    reply = convert(module, request)
    with os.fdopen(replies, "wb") as out:
        out.write(msgspec.json.encode(reply))


def convert(module: str, request: Request) -> Reply:
    """Import a path's module by its full name, and let it convert; a `ConverterError` refuses all that was wanted."""
    if request.code_folder:
        sys.path.append(request.code_folder)
    try:
        reply: Reply = importlib.import_module(module).convert(request)
    except ConverterError as error:
        return Reply(refused=dict.fromkeys(request.variants, f"{error}"))
    return reply


def _die_with_parent() -> None:
    """Where the parent is killed and can't end this process, the kernel does."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
