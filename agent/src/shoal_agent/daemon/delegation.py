"""Has the agent a part of the control group tree to itself, so that each worker can have a limit of its own?

The service manager says so (`Delegate=` of systemd) and gives the files to this user. A group that passes a controller
on to groups below it may hold no process itself (kernel.org, "Control Group v2"), so the daemon moves into one below,
which its children inherit.
"""

import os
from pathlib import Path
from typing import NamedTuple

from shoal_agent import cgroup

OWN_GROUP = "daemon"
MEMORY = "memory"
_MARKS = ("trusted.delegate", "user.delegate")
"""Extended attributes by which systemd tells that it keeps its hands off; the first is for root to read."""


class Delegation(NamedTuple):
    """The group below which workers may get theirs; None with the reason why there is none."""

    group: Path | None
    reason: str = ""


def claim(path: tuple[Path, ...], *, pid: int, is_root: bool) -> Delegation:
    """Set up the group of process `pid`, which `path` begins with, for groups of workers below it."""
    if len(path) < 2:
        return Delegation(None, "there is no control group of version 2 for this service alone")
    own = path[0]
    try:
        if MEMORY not in (own / "cgroup.controllers").read_text().split():
            return Delegation(None, f"{own} has no memory controller")
        if is_root and not _is_marked(own):
            return Delegation(None, f"{own} isn't delegated to this service")
        if (own / "cgroup.procs").read_text().split() != [str(pid)]:
            return Delegation(None, f"{own} holds other processes beside this service")
        (own / OWN_GROUP).mkdir(exist_ok=True)
        (own / OWN_GROUP / "cgroup.procs").write_text(str(pid))
        (own / "cgroup.subtree_control").write_text(f"+{MEMORY}")
    except OSError as error:
        return Delegation(None, f"{own} isn't delegated to this service ({error.strerror})")
    return Delegation(own)


def claim_own() -> Delegation:
    """The same for this process."""
    return claim(cgroup.own_path(), pid=os.getpid(), is_root=os.geteuid() == 0)


def _is_marked(group: Path) -> bool:
    for mark in _MARKS:
        try:
            if os.getxattr(group, mark) == b"1":
                return True
        except OSError:
            continue
    return False
