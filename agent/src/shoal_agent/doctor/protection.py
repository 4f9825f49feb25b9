"""Are keys and weights on this board out of others' reach?"""

import stat
from pathlib import Path

from shoal_worker import sandbox

from shoal_agent import swap
from shoal_agent.doctor.board import UNIT, Board
from shoal_agent.doctor.findings import Finding, Health
from shoal_agent.doctor.reading import read_text
from shoal_agent.keys import IDENTITY


def check_state(board: Board) -> Finding:
    """Nobody else may look into the state folder, workers neither."""
    if not board.state.exists():
        return Finding(Health.UNKNOWN, f"{board.state} isn't there", "enrol this board first, with shoal-agent enrol")
    mode = stat.S_IMODE(board.state.stat().st_mode)
    if mode & 0o077:
        return Finding(
            Health.BAD, f"{board.state} has mode {mode:04o}, others may look in", f"chmod 0700 {board.state}"
        )
    inside = _worker_readable(board.state)
    if inside:
        return Finding(
            Health.BAD,
            f"{board.state} lies in {inside}, which workers may read",
            "move the state folder, or the interpreter, somewhere else",
        )
    return Finding(Health.GOOD, f"{board.state} has mode {mode:04o} and is out of the workers' sight")


def check_keys(board: Board) -> Finding:
    """Private keys are for their owner only."""
    folder = (board.state / IDENTITY).parent
    if not folder.is_dir():
        return Finding(Health.UNKNOWN, "there are no keys yet")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    open_ones = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if open_ones:
        names = ", ".join(path.name for path in open_ones)
        return Finding(
            Health.BAD,
            f"others may read {names} in {folder}",
            f"chmod 0600 {' '.join(map(str, open_ones))}, and enrol anew if others use this board",
        )
    return Finding(Health.GOOD, f"{len(files)} files in {folder}, for their owner only")


def check_swap(board: Board) -> Finding:
    """Weights must not get onto a disk that the system swaps to."""
    places = swap.disk_swaps(proc=board.proc, system=board.system)
    if not places:
        return Finding(Health.GOOD, "the system swaps to no disk")
    where = f"the system swaps to {', '.join(places)}"
    has_controller = "memory" in read_text(board.system / "fs/cgroup/cgroup.controllers").split()
    if board.unit.get("MemorySwapMax") == "0" and has_controller:
        return Finding(Health.GOOD, f"{where}; the unit has MemorySwapMax=0")
    if board.unit.get("LimitMEMLOCK") == "infinity":
        return Finding(Health.GOOD, f"{where}; the unit has LimitMEMLOCK=infinity, so its processes lock their memory")
    missing = "" if has_controller else "; the kernel has no memory controller (control groups, version 2)"
    if not board.unit:
        return Finding(
            Health.WARNING,
            f"{where}, and systemd doesn't run {UNIT}{missing}",
            "run the agent by its unit, or as a user who may lock memory without limit",
        )
    return Finding(
        Health.BAD,
        f"{where}, and the unit forbids it neither by MemorySwapMax=0 nor by LimitMEMLOCK=infinity{missing}",
        "use the unit that comes with the agent, swap to zram only, or turn swap off",
    )


def check_core_dumps(board: Board) -> Finding:
    """A process that crashes must not leave its memory behind."""
    pattern = read_text(board.proc / "sys/kernel/core_pattern")
    if board.unit.get("LimitCORE", "0") != "0":
        return Finding(Health.WARNING, f"the unit has LimitCORE={board.unit['LimitCORE']}", "set LimitCORE=0 in it")
    return Finding(Health.GOOD, f"the agent's processes leave none, whatever the core pattern says ({pattern!r})")


def check_sandbox(board: Board) -> Finding:
    """What this kernel offers to hold workers in."""
    offered = sandbox.offered()
    has = ", ".join(offered.parts) or "nothing"
    if not offered.gaps:
        return Finding(Health.GOOD, f"workers get {has}")
    return Finding(
        Health.WARNING,
        f"workers get {has}; {'; '.join(offered.gaps)}",
        "use a kernel built with CONFIG_SECURITY_LANDLOCK and CONFIG_SECCOMP_FILTER, with landlock in lsm=",
    )


def _worker_readable(path: Path) -> str:
    """The folder that workers may read and that `path` lies in; empty where there is none."""
    real = path.resolve()
    return next((folder for folder in sandbox.readable_places() if real.is_relative_to(folder)), "")
