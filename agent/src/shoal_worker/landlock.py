"""How does a process give up the file system but for what it names, without being root?

Landlock (kernel documentation, "Landlock: unprivileged access control"; linux/landlock.h), by its system calls: a
worker has the standard library only. What a kernel offers is a number, its ABI; each right below says from which on it
is known. Rights that are handled and not granted are refused, for this process and all that it starts, for ever.

What Landlock leaves free on purpose: walking through folders, reading file attributes, memory files without a name,
descriptors that are open already. What it can't forbid (changing a file's mode, sockets of the file system),
`shoal_worker.seccomp` does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from typing import NamedTuple

NEWEST_ABI = 7  # what is known here; of a newer kernel the rights up to this one are used

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION = 1  # flag of landlock_create_ruleset
_PATH_BENEATH = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

READ = READ_FILE | READ_DIR
USE_DEVICE = READ | WRITE_FILE | IOCTL_DEV

_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # of what is no folder
# From which ABI on: rights over files (bits 0 to 12 make, remove and use them), over TCP (bind, connect), and what
# stays within the process and its children (abstract sockets, signals).
_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
_NETWORK = {4: 0b11}
_SCOPES = {6: 0b11}


class Grant(NamedTuple):
    """What may be done with a file, or with everything below a folder."""

    path: str
    rights: int


def find_abi() -> int:
    """The kernel's ABI; 0 where it has no Landlock, or was started without it."""
    return max(0, _call(_CREATE_RULESET, None, 0, _VERSION))


def forbid_all(grants: Iterable[Grant]) -> int:
    """Forbid this thread, and those that it starts from now on, every right but the granted; return the ABI.

    A path that isn't there, or that this user can't reach, is passed over. The paths stay open as long as the process
    lives: a file system that forgets about a file which nobody has open (procfs does) would forget its rule as well.
    Needs `no_new_privs`.

    Raises:
        OSError: the kernel has no Landlock, or refused.
    """
    abi = find_abi()
    files = _known(_FILES, abi)
    # An older kernel takes a longer structure where the rest of it is zero, which it is.
    attributes = struct.pack("=3Q", files, _known(_NETWORK, abi), _known(_SCOPES, abi))
    ruleset = _checked("landlock_create_ruleset", _call(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for grant in grants:
            _allow(ruleset, grant, files)
        _checked("landlock_restrict_self", _call(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return min(abi, NEWEST_ABI)


def _allow(ruleset: int, grant: Grant, known: int) -> None:
    try:
        fd = os.open(grant.path, os.O_PATH | os.O_CLOEXEC)  # not closed: see `forbid_all`
    except OSError:
        return
    rights = grant.rights & known
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _FILE_RIGHTS
    if rights:
        _checked("landlock_add_rule", _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, fd), 0))


def _known(rights: dict[int, int], abi: int) -> int:
    return sum(bits for since, bits in rights.items() if since <= abi)


def _call(number: int, *arguments: object) -> int:
    """The result, or the negative number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *converted)
    return result if result >= 0 else -ctypes.get_errno()


def _checked(name: str, result: int) -> int:
    if result < 0:
        missing = -result in (errno.ENOSYS, errno.EOPNOTSUPP)
        why = "this kernel has none, or was started without it" if missing else os.strerror(-result)
        raise OSError(-result, f"{name}: {why}")
    return result
