"""Are the numbers of the system calls those of the kernel's own headers?"""

import re
from pathlib import Path

import pytest
from shoal_worker.system_calls import ABSENT, FILTERED, FORBIDDEN, MACHINES

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NUMBER = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", re.MULTILINE)
OLDER_ON_X86 = {"fork", "vfork", "open", "creat", "mkdir", "mknod", "link", "symlink", "rename", "unlink", "rmdir"} | {
    *("chmod", "chown", "lchown", "utime", "utimes", "futimesat", "uselib", "iopl", "ioperm", "modify_ldt"),
}
"""That arm64 never had."""


def read_header(machine: str) -> dict[str, int]:
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]}: the kernel's headers (linux-libc-dev) aren't installed")
    return {name: int(number) for name, number in NUMBER.findall(HEADERS[machine].read_text())}


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_the_kernels(machine: str) -> None:
    header, column = read_header(machine), MACHINES.index(machine)
    found = {name: numbers[column] for calls in (FORBIDDEN, ABSENT, FILTERED) for name, numbers in calls.items()}
    known = {name: number for name, number in found.items() if name in header}
    assert known == {name: header[name] for name in known}
    # What this machine's headers are too old for has one number on every architecture.
    newer = {name for name, number in found.items() if name not in header and number is not None}
    assert all(FORBIDDEN[name][0] == FORBIDDEN[name][1] for name in newer)
    absent = {name for name, number in found.items() if number is None}
    assert absent == (OLDER_ON_X86 if machine == "aarch64" else set())
