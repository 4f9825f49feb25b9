"""What does the filter of system calls say? Run by a small machine for classic BPF (linux/filter.h), written for it."""

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_worker import seccomp
from shoal_worker.system_calls import ABSENT, FILTERED, FORBIDDEN, FORBIDDEN_TO_FRONT, MACHINES

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
PID = 4242
READ = {"x86_64": 0, "aarch64": 63}
MACHINE = pytest.mark.parametrize("machine", MACHINES)


def run(program: bytes, *, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """The verdict on a call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    instructions = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            is_true = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += if_true if is_true else if_false


def verdict(machine: str, call: str, *arguments: int, may_make: bool = True, may_write: bool = True) -> int:
    rules = seccomp.conditions(pid=PID, may_make=may_make, may_write=may_write)
    program = seccomp.make_filter(machine, rules)
    calls = {**FORBIDDEN, **ABSENT, **FILTERED}
    number = calls[call][MACHINES.index(machine)]
    assert number is not None
    return run(program, architecture=ARCHITECTURES[machine], number=number, arguments=arguments)


@MACHINE
def test_what_is_forbidden_fails_and_what_a_filter_cannot_read_looks_absent(machine: str) -> None:
    column = MACHINES.index(machine)
    for call in (name for name, numbers in FORBIDDEN.items() if numbers[column] is not None):
        assert verdict(machine, call) == EPERM, call
    for call in ABSENT:
        assert verdict(machine, call) == ENOSYS


@given(machine=st.sampled_from(MACHINES), number=st.integers(0, 0x3FFFFFFF), argument=st.integers(0, 2**64 - 1))
def test_calls_that_no_table_names_are_allowed(machine: str, number: int, argument: int) -> None:
    column = MACHINES.index(machine)
    named = {numbers[column] for calls in (FORBIDDEN, ABSENT, FILTERED) for numbers in calls.values()}
    program = seccomp.make_filter(machine, seccomp.conditions(pid=PID, may_make=True, may_write=True))
    found = run(program, architecture=ARCHITECTURES[machine], number=number, arguments=(argument,) * 6)
    assert number in named or found == ALLOW


@MACHINE
@pytest.mark.parametrize("architecture", [I386, *ARCHITECTURES.values()])
def test_calls_of_another_architecture_fail(machine: str, architecture: int) -> None:
    program = seccomp.make_filter(machine, ())
    found = run(program, architecture=architecture, number=READ[machine])
    assert found == (ALLOW if architecture == ARCHITECTURES[machine] else EPERM)


def test_calls_of_the_x32_abi_look_absent() -> None:
    program = seccomp.make_filter("x86_64", ())
    assert run(program, architecture=ARCHITECTURES["x86_64"], number=0x40000000 | 41) == ENOSYS


@MACHINE
def test_a_thread_may_be_started_and_a_process_may_not(machine: str) -> None:
    thread, process = 0x003D0F00, 0x01200011  # the flags that glibc's pthread_create and fork pass
    assert (verdict(machine, "clone", thread), verdict(machine, "clone", process)) == (ALLOW, EPERM)


@MACHINE
def test_no_family_of_sockets_is_left_to_a_worker_and_one_to_its_front(machine: str) -> None:
    unix, inet, inet6, netlink, vsock = 1, 2, 10, 16, 40
    families = (unix, inet, inet6, netlink, vsock)
    assert [verdict(machine, "socket", family) for family in families] == [EPERM] * 5
    program = seccomp.make_filter(machine, seccomp.socket_conditions((unix,)), forbidden=FORBIDDEN_TO_FRONT, absent={})
    number = FILTERED["socket"][MACHINES.index(machine)]
    assert number is not None
    found = [
        run(program, architecture=ARCHITECTURES[machine], number=number, arguments=(family,)) for family in families
    ]
    assert found == [ALLOW, EPERM, EPERM, EPERM, EPERM]


@MACHINE
@pytest.mark.parametrize("call", ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"])
def test_only_itself_may_be_signalled(machine: str, call: str) -> None:
    assert verdict(machine, call, PID, 6) == ALLOW
    assert [verdict(machine, call, other, 6) for other in (1, PID + 1, 2**64 - 1, 0)] == [EPERM] * 4


@MACHINE
def test_limits_of_others_and_being_dumped_are_out_of_reach(machine: str) -> None:
    assert [verdict(machine, "prlimit64", pid) for pid in (0, PID, 1)] == [ALLOW, ALLOW, EPERM]
    set_dumpable, set_name = 4, 15
    assert [verdict(machine, "prctl", option) for option in (set_dumpable, set_name)] == [EPERM, ALLOW]
    type_into_terminal, terminal_size = 0x5412, 0x5413
    assert [verdict(machine, "ioctl", 2, request) for request in (type_into_terminal, terminal_size)] == [EPERM, ALLOW]


OPENED = {
    "to be read": os.O_RDONLY | os.O_CLOEXEC,
    "to be written": os.O_WRONLY,
    "to be read and written": os.O_RDWR,
    "to be made": os.O_RDWR | os.O_CREAT,
    "to be cut": os.O_RDONLY | os.O_TRUNC,
    "without a name": os.O_RDWR | 0o20200000,  # O_TMPFILE
}


@MACHINE
@pytest.mark.parametrize(
    ("may_make", "may_write", "allowed"),
    [
        (True, True, set(OPENED)),
        (False, True, {"to be read", "to be written", "to be read and written"}),
        (False, False, {"to be read"}),
    ],
)
def test_without_landlock_files_are_opened_for_reading(
    machine: str, may_make: bool, may_write: bool, allowed: set[str]
) -> None:
    def opens(flags: int) -> bool:
        return verdict(machine, "openat", 0, 0, flags, may_make=may_make, may_write=may_write) == ALLOW

    assert {name for name, flags in OPENED.items() if opens(flags)} == allowed


def test_a_machine_whose_calls_are_unknown_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.make_filter("riscv64", ())
    assert not seccomp.is_available("riscv64")
