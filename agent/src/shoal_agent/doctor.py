"""What about this board weakens the agent's protection, and what can be done about it?

Each check is a function in `CHECKS` that looks at one thing and changes nothing. They are for the person at the board:
what a check can't find out is `unknown`, which is no fault.
"""

import ctypes
import enum
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from shoal_wire.certificate import parse_certificate
from shoal_wire.errors import Malformed
from shoal_worker import sandbox

from shoal_agent import swap
from shoal_agent.credentials import find_credentials
from shoal_agent.files import DiskFiles
from shoal_agent.keys import IDENTITY

UNIT = "shoal-agent.service"
PROC = Path("/proc")
SYSTEM = Path("/sys")
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock before this was never set: this program is younger."""
CERTIFICATE_REST = 0.2
"""Part of a certificate's life below which it should have been renewed."""

_UNSYNCHRONISED = 0x0040  # STA_UNSYNC of adjtimex(2)
_TIMEX_STATUS_AT = 40  # of `status` in struct timex where a long has 64 bits
_TIMEX_BYTES = 208


class Health(enum.StrEnum):
    """What a check came to."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """What was found, and what to do about it where that is needed."""

    health: Health
    words: str
    advice: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    check: str
    health: Health
    words: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """What is looked at. `unit` holds properties of the agent's unit, and is empty where systemd doesn't run it."""

    state: Path
    now: float
    unit: Mapping[str, str] = field(default_factory=dict)
    proc: Path = PROC
    system: Path = SYSTEM


def read_board(state: Path) -> Board:
    """This board."""
    return Board(state=state, now=time.time(), unit=_read_unit())


def examine(board: Board) -> tuple[Checked, ...]:
    """All checks, in order. One that isn't allowed to look says so."""
    results = []
    for name, check in CHECKS.items():
        try:
            finding = check(board)
        except PermissionError as error:
            finding = Finding(
                Health.UNKNOWN, f"{error.filename} can't be read by this user", "run it as the agent's user, or as root"
            )
        results.append(Checked(check=name, health=finding.health, words=finding.words, advice=finding.advice))
    return tuple(results)


def write_report(results: Sequence[Checked]) -> str:
    """The results as lines for a person."""
    lines = []
    for result in results:
        lines.append(f"{result.health:<8} {result.check}: {result.words}")
        if result.advice:
            lines.append(f"{'':<8} → {result.advice}")
    return "\n".join(lines)


def _check_state(board: Board) -> Finding:
    if not board.state.exists():
        return Finding(Health.UNKNOWN, f"{board.state} isn't there", "enrol this board first, with shoal-agent enrol")
    status = board.state.stat()
    mode = stat.S_IMODE(status.st_mode)
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


def _check_keys(board: Board) -> Finding:
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


def _check_certificate(board: Board) -> Finding:
    path = find_credentials(DiskFiles(), board.state).certificate  # the renewed one, where there is one
    try:
        certificate = parse_certificate(path.read_bytes(), what=str(path))
    except FileNotFoundError:
        return Finding(Health.UNKNOWN, "there is no certificate yet")
    except Malformed:
        return Finding(Health.BAD, f"{path} isn't a certificate", "enrol anew, with shoal-agent enrol")
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if board.now > end:
        return Finding(
            Health.BAD, f"it ended on {until}", "let the agent reach its fleet, which renews it; see shoal-agent status"
        )
    if board.now < begin:
        return Finding(
            Health.BAD, f"it begins on {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC", "set the board's clock"
        )
    if end - board.now < CERTIFICATE_REST * (end - begin):
        return Finding(
            Health.WARNING, f"it ends on {until} and should have been renewed", "let the agent reach its fleet"
        )
    return Finding(Health.GOOD, f"it ends on {until}")


def _check_clock(board: Board) -> Finding:
    if board.now < EARLIEST.timestamp():
        now = datetime.fromtimestamp(board.now, UTC)
        return Finding(Health.BAD, f"it says {now:%Y-%m-%d}, which is before this program", "set the board's clock")
    status = _clock_status()
    if status is None:
        return Finding(Health.UNKNOWN, "the kernel doesn't say whether it is synchronised")
    if status & _UNSYNCHRONISED:
        return Finding(
            Health.WARNING, "it isn't synchronised", "run an NTP client, such as systemd-timesyncd or chrony"
        )
    return Finding(Health.GOOD, "it is synchronised")


def _check_swap(board: Board) -> Finding:
    places = swap.disk_swaps(proc=board.proc, system=board.system)
    if not places:
        return Finding(Health.GOOD, "the system swaps to no disk")
    where = f"the system swaps to {', '.join(places)}"
    has_controller = "memory" in _read(board.system / "fs/cgroup/cgroup.controllers").split()
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


def _check_core_dumps(board: Board) -> Finding:
    pattern = _read(board.proc / "sys/kernel/core_pattern").strip()
    if board.unit.get("LimitCORE", "0") != "0":
        return Finding(Health.WARNING, f"the unit has LimitCORE={board.unit['LimitCORE']}", "set LimitCORE=0 in it")
    return Finding(Health.GOOD, f"the agent's processes leave none, whatever the core pattern says ({pattern!r})")


def _check_sandbox(board: Board) -> Finding:
    offered = sandbox.offered()
    has = ", ".join(offered.parts) or "nothing"
    if not offered.gaps:
        return Finding(Health.GOOD, f"workers get {has}")
    return Finding(
        Health.WARNING,
        f"workers get {has}; {'; '.join(offered.gaps)}",
        "use a kernel built with CONFIG_SECURITY_LANDLOCK and CONFIG_SECCOMP_FILTER, with landlock in lsm=",
    )


CHECKS: Mapping[str, Callable[[Board], Finding]] = {
    "state folder": _check_state,
    "keys": _check_keys,
    "certificate": _check_certificate,
    "clock": _check_clock,
    "swap": _check_swap,
    "core dumps": _check_core_dumps,
    "worker sandbox": _check_sandbox,
}


def _worker_readable(path: Path) -> str:
    """The folder that workers may read and that `path` lies in; empty where there is none."""
    real = path.resolve()
    return next((folder for folder in sandbox.readable_places() if real.is_relative_to(folder)), "")


def _clock_status() -> int | None:
    """The clock's status bits, which reading doesn't change; None where the kernel gives none."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.sizeof(ctypes.c_long) != 8 or ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
        return None
    return int.from_bytes(buffer.raw[_TIMEX_STATUS_AT : _TIMEX_STATUS_AT + 4], "little")


def _read_unit() -> dict[str, str]:
    command = ["systemctl", "show", UNIT, "--property=LoadState,MemorySwapMax,LimitMEMLOCK,LimitCORE"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    properties = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return properties if properties.get("LoadState") == "loaded" else {}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
