"""Which agent is started on this board: the package's own, or one that it brought itself, and for how long on trial?

    guard.py launch [ARGUMENT…]    become the agent, as `shoal-agent ARGUMENT…`
    guard.py watch                 end a trial that has lasted too long, then exit; exits at once without a trial

The agent unpacks a newer agent beside itself into a folder of trees, and puts it on trial:

    <trees>/versions/<name>/    a tree: bin/python3, site-packages and tree.json, which says what it is made for
    <trees>/current             link to the tree that runs; not there while the package's own runs
    <trees>/guard.json          what was committed, what is on trial, what was refused
    <trees>/trial               link that is there during a trial: the service manager then starts `watch`

A tree runs only if it was committed, or is on trial within its bounds. Each start on trial is counted, on the disk,
before it begins. Too many, or too long, and the tree is refused for good: what was committed before runs again, or the
package's own. Whatever can't be read or written here leads to the package's own, which nothing here ever changes.

Standard library only, and never part of a tree: no update can break what takes an update back.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

PACKAGE = Path("/usr/lib/shoal-agent")
STATE = "/var/lib/shoal-agent"
MAX_STARTS = 3
MAX_REFUSED = 32
POLL_S = 5.0
TERMINATE_S = 10.0
LOCK_S = 10.0
FAILED = 1
WRONG_USE = 2


@dataclass(frozen=True)
class Trial:
    """A tree that has to show that it reaches its fleet."""

    tree: str
    limit_s: float
    """In one boot of the board; a boot counts as a start, so that all of them together are bounded too."""
    starts: int = 0
    boot: str = ""
    """Id of the boot that `began_s` is of; empty before the first start."""
    began_s: float = 0.0
    """Of a clock that only grows, and that nobody sets."""
    pid: int = 0
    pid_began: int = 0
    """In ticks since boot, as the kernel tells it: a number of a process may come again, both together don't."""


@dataclass(frozen=True)
class Record:
    """Content of guard.json."""

    committed: str = ""
    """Empty: the package's own."""
    trial: Trial | None = None
    refused: tuple[dict[str, Any], ...] = ()
    """Name, reason and time of each, the oldest first."""


@dataclass(frozen=True)
class Clock:
    """Which boot this is, for how long it has lasted, and what time people call it."""

    boot: str
    now_s: float
    at: float


def decide(record: Record, *, current: str, clock: Clock, unfit: Callable[[str], str]) -> tuple[str, Record]:
    """Which tree to start, empty for the package's own, and what to write down before.

    `unfit` says why a tree can't run on this board; empty where it can.
    """
    trial = record.trial
    if trial is not None and trial.tree == current:
        trial = trial if trial.boot == clock.boot else replace(trial, boot=clock.boot, began_s=clock.now_s)
        trouble = unfit(trial.tree) or overdue(trial, clock)
        if not trouble:
            return trial.tree, replace(record, trial=replace(trial, starts=trial.starts + 1))
        record = refuse(record, trial.tree, trouble, at=clock.at)
    if record.committed and not unfit(record.committed):
        return record.committed, record
    return "", record


def overdue(trial: Trial, clock: Clock) -> str:
    """Why a trial has to end; empty while it may go on."""
    if trial.starts >= MAX_STARTS:
        return f"started {trial.starts} times, and never kept: the fleet didn't hear from it"
    elapsed_s = clock.now_s - trial.began_s
    if trial.boot == clock.boot and elapsed_s > trial.limit_s:
        return f"ran for {elapsed_s:.0f} s of at most {trial.limit_s:.0f} s, and the fleet didn't hear from it"
    return ""


def refuse(record: Record, tree: str, reason: str, *, at: float) -> Record:
    """End the trial of a tree, which never runs again."""
    others = tuple(one for one in record.refused if one.get("tree") != tree)
    refused = (*others, {"tree": tree, "reason": reason, "at": at})[-MAX_REFUSED:]
    committed = "" if record.committed == tree else record.committed
    return replace(record, committed=committed, trial=None, refused=refused)


def parse_record(raw: bytes) -> Record:
    """Raises ValueError, TypeError, KeyError, AttributeError or RecursionError: not what is written here."""
    found = json.loads(raw)
    if found.get("format") != 1:
        raise ValueError(f"format {found.get('format')}, expected 1")
    trial = found.get("trial")
    return Record(
        committed=str(found.get("committed", "")),
        trial=None if trial is None else _parse_trial(trial),
        refused=tuple(one for one in found.get("refused", []) if isinstance(one, dict)),
    )


def _parse_trial(found: dict[str, Any]) -> Trial:
    return Trial(
        tree=str(found["tree"]),
        limit_s=float(found["limit_s"]),
        starts=int(found.get("starts", 0)),
        boot=str(found.get("boot", "")),
        began_s=float(found.get("began_s", 0.0)),
        pid=int(found.get("pid", 0)),
        pid_began=int(found.get("pid_began", 0)),
    )


def version_order(text: str) -> tuple[int, ...]:
    """Which of two versions is the newer; what is no version is older than all."""
    parts = text.split(".")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    return tuple([*numbers, 0, 0, 0, 0][:4]) if len(numbers) == len(parts) else ()


class Trees:
    """The folder of trees, on the disk."""

    def __init__(self, folder: Path, *, package: Path) -> None:
        """`package` is the tree that the package installed."""
        self.folder = folder
        self.package = package

    def path(self, tree: str) -> Path:
        """Where a tree lies."""
        return self.folder / "versions" / tree if tree else self.package

    def are_own(self) -> bool:
        """Whether the folder is this user's, who alone counts: what root wrote there the agent couldn't change."""
        try:
            return self.folder.stat().st_uid == os.geteuid()
        except OSError:
            return False

    def current(self) -> str:
        """What `current` leads to; empty without it."""
        try:
            return (self.folder / "current").readlink().name
        except OSError:
            return ""

    def read(self) -> Record:
        """What can't be read says nothing: the package's own runs."""
        try:
            return parse_record((self.folder / "guard.json").read_bytes())
        except FileNotFoundError:
            return Record()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            _say(f"{self.folder / 'guard.json'}: {error}; the package's own agent runs")
            return Record()

    def write(self, record: Record) -> None:
        """On the disk when this returns."""
        temporary = self.folder / ".guard.json.guard"
        with temporary.open("wb") as file:
            file.write(json.dumps({"format": 1, **asdict(record)}).encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / "guard.json")
        self._sync()

    def point(self, tree: str) -> None:
        """Have `current` lead to a tree, or be gone; and end the mark of a trial, unless that tree is on trial."""
        link = self.folder / "current"
        if not tree:
            link.unlink(missing_ok=True)
        elif self.current() != tree:
            temporary = self.folder / ".current.guard"
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(Path("versions") / tree)
            temporary.replace(link)
        trial = self.read().trial
        if trial is None or trial.tree != tree:
            (self.folder / "trial").unlink(missing_ok=True)
        self._sync()

    def unfit(self, tree: str) -> str:
        """Why a tree can't run here: system or package have changed since it came, or it isn't whole."""
        try:
            made = json.loads((self.path(tree) / "tree.json").read_bytes())
            found = {name: str(made[name]) for name in ("version", "python", "machine")}
        except (OSError, ValueError, TypeError, KeyError) as error:
            return f"can't be read: {error}"
        here = {"python": "{}.{}".format(*sys.version_info[:2]), "machine": os.uname().machine}
        for name, expected in here.items():
            if found[name] != expected:
                return f"made for {name} {found[name]}, this board has {expected}"
        if not os.access(self.path(tree) / "bin" / "python3", os.X_OK):
            return "its interpreter isn't there"
        own = self.package_version()
        if version_order(found["version"]) < version_order(own):
            return f"version {found['version']} is older than the package's own, {own}"
        return ""

    def package_version(self) -> str:
        """Version of the package's own agent; empty where it can't be told."""
        found = sorted(self.package.glob("site-packages/shoal_agent-*.dist-info"))
        return found[0].name.removesuffix(".dist-info").partition("-")[2] if found else ""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with guard.json; after a while even beside an agent that hangs while it holds the lock."""
        descriptor = os.open(self.folder / "guard.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + LOCK_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)

    def _sync(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def choose(trees: Trees, *, is_start: bool) -> str:
    """The tree to start. A start of the daemon by the owner of the folder counts; all else runs what was committed."""
    if not is_start or not trees.are_own():
        committed = trees.read().committed
        return "" if not committed or trees.unfit(committed) else committed
    try:
        with trees.locked():
            before = trees.read()
            tree, record = decide(before, current=trees.current(), clock=read_clock(), unfit=trees.unfit)
            if record.trial is not None and record.trial.tree == tree:
                pid = os.getpid()
                record = replace(record, trial=replace(record.trial, pid=pid, pid_began=began(pid)))
            if record != before:
                trees.write(record)
            if trees.current() != tree:
                trees.point(tree)
            if before.trial is not None and record.trial is None:
                _say(f"tree {before.trial.tree} is refused: {record.refused[-1]['reason']}")
            return tree
    except OSError as error:  # what can't be counted isn't tried
        _say(f"{trees.folder}: {error}; the package's own agent runs")
        return ""


def launch(arguments: Sequence[str], *, trees: Trees) -> int:
    """Become the agent. Returns only where it can't."""
    tree = choose(trees, is_start=arguments[:1] == ["run"])
    environment = {
        **os.environ,
        "SHOAL_AGENT_TREES": str(trees.folder),
        "SHOAL_AGENT_TREE": tree,
        "SHOAL_AGENT_PACKAGE": trees.package_version(),
        # What Python would write beside a tree's files, nobody syncs.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name in dict.fromkeys((tree, "")):
        interpreter = str(trees.path(name) / "bin" / "python3")
        try:
            command = [interpreter, "-I", "-B", "-m", "shoal_agent.cli", *arguments]
            os.execve(interpreter, command, environment)  # noqa: S606 (what a launcher is for)
        except OSError as error:
            _say(f"{interpreter}: {error.strerror}")
            environment["SHOAL_AGENT_TREE"] = ""
    return FAILED


def watch(trees: Trees) -> int:
    """Wait for the end of a trial; one that is overdue is refused, and its agent ended: the next start is another."""
    began_here = read_clock()
    while trees.are_own():
        with trees.locked():
            record, clock = trees.read(), read_clock()
            trial = record.trial
            if trial is None or trial.tree != trees.current():
                (trees.folder / "trial").unlink(missing_ok=True)
                return 0
            if trial.boot != clock.boot:  # not started yet in this boot
                trial = replace(trial, boot=clock.boot, began_s=began_here.now_s)
            reason = overdue(replace(trial, starts=0), clock)
            if reason:
                _say(f"tree {trial.tree} is refused: {reason}")
                trees.write(refuse(record, trial.tree, reason, at=clock.at))
                trees.point("" if trees.unfit(record.committed) else record.committed)
        if reason:
            _end(trial)
            return 0
        time.sleep(POLL_S)
    return 0


def _end(trial: Trial) -> None:
    """End the agent on trial, kindly at first."""
    for number, patience_s in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, 0.0)):
        deadline = time.monotonic() + patience_s
        if not trial.pid or began(trial.pid) != trial.pid_began:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(trial.pid, number)
        while time.monotonic() < deadline and began(trial.pid) == trial.pid_began:
            time.sleep(0.1)


def began(pid: int) -> int:
    """When a process began, in ticks since boot (proc(5)); 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def read_clock() -> Clock:
    """The board's clocks now."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Clock(boot=boot, now_s=time.clock_gettime(time.CLOCK_BOOTTIME), at=time.time())


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    state = Path(os.environ.get("SHOAL_STATE") or STATE)
    trees = Trees(state / "agent", package=Path(os.environ.get("SHOAL_AGENT_FILES") or PACKAGE))
    match list(arguments):
        case ["launch", *rest]:
            return launch(rest, trees=trees)
        case ["watch"]:
            return watch(trees)
    _say("usage: guard.py launch [ARGUMENT…] | guard.py watch; example: guard.py launch run")
    return WRONG_USE


def _say(text: str) -> None:
    print(f"shoal-agent guard: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
