"""How does a process give up system calls for ever? (seccomp(2), SECCOMP_MODE_FILTER)

A filter is a program of the kernel's classic BPF (linux/filter.h, linux/seccomp.h). It sees a call's number and its
arguments as numbers, not what they point to. What is forbidden fails with EPERM, so that a library that only tries goes
on. Memory that is both written and executed stays allowed: engines compile kernels while they run.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .system_calls import ABSENT, FILTERED, FORBIDDEN, MACHINES, Numbers

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_X32_BIT = 0x40000000  # calls of the x32 ABI come as the same architecture

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # in struct seccomp_data; the low half of argument n lies at 16 + 8 n
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

_SET_FILTER = 1  # operation of seccomp(2)
_ALL_THREADS, _KEEP_SPECULATION = 1, 4
_FLAGS = (_ALL_THREADS | _KEEP_SPECULATION, _ALL_THREADS)
"""In the order in which they are tried. Without the second flag, which Linux 4.17 brought, kernels up to 5.15 slow a
process with a filter down (they turn off Speculative Store Bypass)."""
_SECCOMP = {"x86_64": 317, "aarch64": 277}

_CLONE_THREAD = 0x00010000
_NOT_READING = os.O_WRONLY | os.O_RDWR
_MAKING = os.O_CREAT | os.O_TRUNC | 0o20000000  # the last: O_TMPFILE
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: type into the terminal that standard error may be
_OWNED_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN and SIOCSPGRP
_OWNED_BY_FCNTL = (8, 10, 15)  # F_SETOWN, F_SETSIG and F_SETOWN_EX: have the kernel signal another process
_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG = 4, 1


class Condition(NamedTuple):
    """A call that depends on an argument: `allows` says what happens where it has one of `values`, or any of `bits`."""

    call: str
    argument: int
    allows: bool
    values: Sequence[int] = ()
    bits: int = 0


def is_available(machine: str) -> bool:
    """Whether the kernel takes filters, and the calls of this machine are known here."""
    if machine not in _SECCOMP:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(ctypes.c_long(_SECCOMP[machine]), _SET_FILTER, 0, None)  # asks to read a filter from nowhere
    return ctypes.get_errno() == errno.EFAULT


def conditions(*, pid: int, may_make: bool, may_write: bool) -> tuple[Condition, ...]:
    """What this process may do with calls that it can't do without.

    `may_make` and `may_write` say whether files may be opened so that they are made or cut, or written to; where
    Landlock watches over files both may be.
    """
    refused = (0 if may_make else _MAKING) | (0 if may_write else _NOT_READING)
    opening = (
        [Condition("open", 1, False, bits=refused), Condition("openat", 2, False, bits=refused)] if refused else []
    )
    itself = [Condition(call, 0, True, values=(pid,)) for call in _SIGNALLING]
    return (
        *socket_conditions(()),
        Condition("socketpair", 0, True),  # one of datagrams can be sent to any socket that has a path
        Condition("clone", 0, True, bits=_CLONE_THREAD),  # threads, no processes
        *opening,
        *itself,
        Condition("prlimit64", 0, True, values=(0, pid)),
        Condition("ioctl", 1, False, values=(*_TERMINAL_INPUT, *_OWNED_BY_IOCTL)),
        Condition("fcntl", 1, False, values=_OWNED_BY_FCNTL),
        Condition("prctl", 0, False, values=(_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG)),
    )


def socket_conditions(families: Sequence[int]) -> tuple[Condition, ...]:
    """Only these families of sockets may be opened."""
    return (Condition("socket", 0, True, values=families),)


_SIGNALLING = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")


def make_filter(
    machine: str,
    rules: Sequence[Condition],
    *,
    forbidden: Mapping[str, Numbers] = FORBIDDEN,
    absent: Mapping[str, Numbers] = ABSENT,
) -> bytes:
    """The program for a machine: what is forbidden, what is to look absent, and what `rules` say; all else is allowed.

    Raises:
        KeyError: the calls of this machine aren't known here.
    """
    column = MACHINES.index(machine) if machine in MACHINES else -1
    architecture = _ARCHITECTURES[machine]
    program = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_IF_EQUAL, architecture, if_true=1),
        _instruction(_RETURN, _ERROR | errno.EPERM),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    if machine == "x86_64":
        program += _verdict_if(_IF_AT_LEAST, _X32_BIT, error=errno.ENOSYS)
    for rule in rules:
        number = FILTERED[rule.call][column]
        if number is not None:
            program += _condition(number, rule)
    for calls, error in ((forbidden, errno.EPERM), (absent, errno.ENOSYS)):
        for number in _numbers(calls, column):
            program += _verdict_if(_IF_EQUAL, number, error=error)
    return b"".join([*program, _instruction(_RETURN, _ALLOW)])


def install_filter(machine: str, program: bytes) -> None:
    """Have the kernel apply the filter to this process, all its threads, for ever. Needs `no_new_privs`.

    Raises:
        OSError: the kernel takes no filters, or refused this one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and where they lie
    description = struct.pack("@HP", len(program) // _INSTRUCTION.size, ctypes.addressof(memory))
    for flags in _FLAGS:
        if libc.syscall(ctypes.c_long(_SECCOMP[machine]), _SET_FILTER, flags, description) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:
            break
    error = ctypes.get_errno()
    raise OSError(error, f"seccomp: {os.strerror(error)}")


_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter: code, instructions to skip if true and if not, value


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)


def _verdict_if(test: int, value: int, *, error: int) -> list[bytes]:
    return [_instruction(test, value, if_false=1), _instruction(_RETURN, _ERROR | error)]


def _condition(number: int, rule: Condition) -> list[bytes]:
    verdicts = {True: _ALLOW, False: _ERROR | errno.EPERM}
    met = _instruction(_RETURN, verdicts[rule.allows])
    body = [_instruction(_LOAD, 16 + 8 * rule.argument)]
    for value in rule.values:
        body += [_instruction(_IF_EQUAL, value, if_false=1), met]
    if rule.bits:
        body += [_instruction(_IF_BITS, rule.bits, if_false=1), met]
    body.append(_instruction(_RETURN, verdicts[not rule.allows]))
    return [_instruction(_IF_EQUAL, number, if_false=len(body)), *body]


def _numbers(calls: Mapping[str, Numbers], column: int) -> Iterator[int]:
    for numbers in calls.values():
        number = numbers[column]
        if number is not None:
            yield number
