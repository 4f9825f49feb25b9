"""Runs a program as if the kernel had no Landlock, or no filters of system calls either.

`older_kernel.py landlock,seccomp PROGRAM ARGUMENT…`: what is named looks absent. By a filter of its own, written after
linux/filter.h and linux/seccomp.h.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS: dict[str, dict[str, tuple[int, ...]]] = {
    "landlock": {"x86_64": (444, 445, 446), "aarch64": (444, 445, 446)},
    "seccomp": {"x86_64": (317,), "aarch64": (277,)},
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def hide(*parts: str) -> None:
    program = struct.pack("=HBBI", 0x20, 0, 0, 0)  # load the call's number
    for part in parts:
        for number in NUMBERS[part][platform.machine()]:
            program += struct.pack("=HBBI", 0x15, 0, 1, number)
            program += struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | errno.ENOSYS)
    program += struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    memory = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("@HP", len(program) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, FILTER, description) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    hide(*sys.argv[1].split(","))
    os.execv(sys.argv[2], sys.argv[2:])
