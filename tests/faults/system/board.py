"""A board: the real daemon and what it starts, on a watched state folder, and the sounds that are given to it."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from shoal_agent.slots import JOURNAL, SLOTS, STORE, Journal, Slot, Slots
from shoal_wire.update import UpdateState

from tests.faults.system.processes import Process, in_session, kill, wait_for
from tests.faults.system.releases import MODEL, short_sound

ROOT = Path(__file__).parents[3]
SOURCE = "sounds"
_INTERPRETER = """\
#!/bin/sh
exec env PYTHONPATH={root} PYTHONDONTWRITEBYTECODE=1 {python} -m tests.faults.system.halting_worker {control} "$@"
"""


class Board:
    """A board that is enrolled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.items = folder / "items"
        self.control = folder / "control"
        self.log = folder / "daemon.log"
        self.expected: dict[str, str] = {}
        """Name of each item that was ever given to the board, by the id that its answer must have."""
        self._daemon: subprocess.Popen[bytes] | None = None
        self._placed = 0

    def enrol(self, token: str) -> None:
        """Through the command, then the configuration: one source, and an interpreter that halts."""
        self.items.mkdir()
        self.control.mkdir()
        program = str(Path(sys.executable).with_name("shoal-agent"))
        command = [program, "enrol", "-", "--state", str(self.state), "--name", "board"]
        subprocess.run(command, input=token, text=True, check=True, timeout=60, capture_output=True)
        interpreter = self.folder / "interpreter"
        interpreter.write_text(_INTERPRETER.format(root=ROOT, python=sys.executable, control=self.control))
        interpreter.chmod(0o700)
        (self.state / "agent.toml").write_text(
            f"threads = 1\n[telemetry]\ninterval_s = 1.0\nidle_interval_s = 2.0\n"
            f'[tuning]\nat_install = false\n[interpreters]\nonnxruntime = "{interpreter}"\n'
            f'[[sources]]\nkind = "folder"\nname = "{SOURCE}"\npath = "{self.items}"\nrelease = "{MODEL}"\n'
        )

    @property
    def device(self) -> str:
        return str(json.loads((self.state / "device.json").read_bytes())["device"])

    @property
    def daemon_pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    @property
    def is_running(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def start(self) -> None:
        """A daemon, in a session of its own."""
        command = [sys.executable, "-m", "tests.faults.system.run_daemon", str(self.control), str(self.state)]
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def kill_daemon(self) -> None:
        """SIGKILL; the kernel must take all its children with it."""
        assert self._daemon is not None
        kill(self._daemon.pid)
        assert self._daemon.wait(10) == -signal.SIGKILL
        self._expect_nobody()

    def stop(self) -> None:
        """As systemd stops it."""
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            assert self._daemon.wait(30) == 0, self.log.read_text()
        if self._daemon is not None:
            self._expect_nobody()

    def running(self, program: str) -> list[Process]:
        """Processes of this board by what stands in their command line."""
        return [process for process in in_session(self.daemon_pid) if program in process.command]

    def front(self) -> Process:
        """The front that serves; waits for it."""
        wait_for(self._fronts, what="a serving front")
        return self._fronts()[0]

    def workers(self) -> list[Process]:
        """Those of the serving front; waits for one."""
        wait_for(lambda: self._children(self.front()), what="a worker of the serving front")
        return self._children(self.front())

    def journal(self) -> Journal | None:
        path = self.state / JOURNAL
        return msgspec.json.decode(path.read_bytes(), type=Journal) if path.exists() else None

    def update_state(self) -> UpdateState | None:
        journal = self.journal()
        return journal.state if journal else None

    def slot(self) -> Slot:
        return _read_slots(self.state).slots.get(MODEL, Slot())

    def current_version(self) -> int | None:
        current = self.slot().current
        return current.reference.version if current else None

    def give(self, content: bytes | None = None, *, prefix: str = "sound") -> str:
        """Place an item in the folder; returns the id that its answer must have (docs/protocol.md)."""
        self._placed += 1
        name, data = f"{prefix}-{self._placed:06d}", content or short_sound(self._placed)
        identity = ["shoal/answer/v1", self.device, SOURCE, name, hashlib.sha256(data).hexdigest()]
        answer_id = hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()
        self.expected[answer_id] = name
        unfinished = self.items / f".{name}"
        unfinished.write_bytes(data)
        unfinished.rename(self.items / name)
        return answer_id

    @contextmanager
    def listening(self) -> Iterator[None]:
        """There is always a sound to answer, as before a microphone."""
        ended = threading.Event()

        def play() -> None:
            while not ended.wait(0.05):
                if len(os.listdir(self.items)) < 2:
                    self.give()

        player = threading.Thread(target=play, name="player")
        player.start()
        try:
            yield
        finally:
            ended.set()
            player.join()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """slots.json can be read at every moment, and what it names is in the store."""
        ended, faults = threading.Event(), list[str]()

        def watch() -> None:
            while not ended.wait(0.01):
                faults.extend(_find_faults(self.state))

        watcher = threading.Thread(target=watch, name="watcher")
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
        assert faults == []

    def check_processes(self) -> None:
        """No updater and no second front are left, and no more than one worker for each release that is held."""
        slot = self.slot()
        held = sum(release is not None for release in (slot.current, slot.previous))

        def tidy() -> bool:
            processes = in_session(self.daemon_pid)
            fronts = self._fronts()
            others = len(processes) - 1 - len(fronts) - sum(len(self._children(front)) for front in fronts)
            return others == 0 and len(fronts) == 1 and 1 <= len(self._children(fronts[0])) <= held

        wait_for(tidy, what=lambda: f"left over: {in_session(self.daemon_pid)}")

    def _expect_nobody(self) -> None:
        assert self._daemon is not None
        session = self._daemon.pid
        deadline = time.monotonic() + 5
        while left := in_session(session):
            assert time.monotonic() < deadline, f"outlived the daemon: {left}"
            time.sleep(0.01)

    def _fronts(self) -> list[Process]:
        return [process for process in self.running("shoal_agent.front") if "--check" not in process.command]

    def _children(self, front: Process) -> list[Process]:
        return [process for process in in_session(self.daemon_pid) if process.parent == front.pid]


def _read_slots(state: Path) -> Slots:
    path = state / SLOTS
    return msgspec.json.decode(path.read_bytes(), type=Slots) if path.exists() else Slots()


def _find_faults(state: Path) -> list[str]:
    try:
        slots = _read_slots(state)
    except msgspec.DecodeError as error:
        return [f"slots.json: {error}"]
    faults = []
    for slot in slots.slots.values():
        for held in (slot.current, slot.previous):
            if held is None:
                continue
            names = [held.reference.manifest_sha256, *(grant.ciphertext_sha256 for grant in held.grants)]
            faults += [f"{name} isn't in the store" for name in names if not (state / STORE / name).exists()]
    return faults if _read_slots(state) == slots else []  # what was looked for may have gone with its slot meanwhile
