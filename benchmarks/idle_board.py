"""What does a board pay for being in a fleet: memory, processor, network, flash, and the seconds until it serves?

The real agent, enrolled in a real fleet with a real broker on loopback, its connection through a relay that asks the
kernel for bytes and segments (`counting_relay.py`), its state folder on an ext4 file system of its own, of which the
kernel counts the sectors that are written, journal and all. Scenes:

- idle: enrolled and connected, no release
- serving: one release (note events, ONNX Runtime) that gets an item every `--pace` seconds
- update: what fetching, checking and committing one release writes and receives
- start: seconds from starting the daemon to the answer of an item that was waiting; programs are in the page cache

Memory as AWS publishes it for Greengrass nucleus lite: the median of PSS samples ten seconds apart, over ten minutes
after five minutes of warming up. Bytes a day are those of the measured time, stretched.

Run by hand, as root: `python -m benchmarks.idle_board [--warm-up 300] [--minutes 10] [--pace 10] [--json]`
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal_agent.daemon.memory import children, read_memory

from benchmarks.counting_relay import CountingRelay, Traffic
from tests.faults.system.board import Board
from tests.faults.system.processes import in_session, wait_for
from tests.faults.system.releases import MODEL, build_folders
from tests.faults.system.site import Site

DAY_S = 86_400
SAMPLE_S = 10.0
DISK_BYTES = 512 << 20
SECTOR_BYTES = 512
STARTS = 5
_WRITTEN_SECTORS = 6  # column of /sys/block/…/stat (Documentation/block/stat.rst)
_CLOCK_HZ = os.sysconf("SC_CLK_TCK")


class PlainBoard(Board):
    """The agent as it is installed, on a disk of its own, behind a relay."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.disk = folder / "disk"
        self.state = self.disk / "state"
        self._relay: CountingRelay | None = None

    def enrol(self, token: str) -> None:
        self.items.mkdir()
        program = [_agent(), "enrol", "-", "--state", str(self.state), "--name", "board"]
        subprocess.run(program, input=token, text=True, check=True, timeout=60, capture_output=True)
        device = json.loads((self.state / "device.json").read_bytes())
        self._relay = CountingRelay(device["broker_port"])
        device["broker_port"] = self._relay.port
        (self.state / "device.json").write_text(json.dumps(device))
        (self.state / "agent.toml").write_text(
            f'engines = ["onnxruntime"]\n[tuning]\nat_install = false\n[[sources]]\nkind = "folder"\n'
            f'name = "sounds"\npath = "{self.items}"\nrelease = "{MODEL}"\n'
        )

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                [_agent(), "run", "--state", str(self.state)], stdout=log, stderr=log, start_new_session=True
            )

    def traffic(self) -> Traffic:
        """With the broker. What is fetched over HTTPS isn't in it."""
        assert self._relay is not None
        return self._relay.traffic()

    def written_bytes(self) -> int:
        """To the disk, since it was made."""
        os.sync()
        device = Path("/sys/dev/block") / _number_of(self.disk) / "stat"
        return int(device.read_text().split()[_WRITTEN_SECTORS]) * SECTOR_BYTES

    def processor_s(self) -> dict[str, float]:
        """Seconds of processor time by kind of process."""
        return {name: _processor_s(pid) for name, pid in self.processes().items()}

    def processes(self) -> dict[str, int]:
        """Process id by kind; a worker is named after its front."""
        found = {"daemon": self.daemon_pid}
        for process in in_session(self.daemon_pid):
            if process.parent == self.daemon_pid and "shoal_agent.front" in process.command:
                found["front"] = process.pid
                found |= {f"worker {number}": pid for number, pid in enumerate(children(process.pid))}
        return found


def main() -> int:
    """Measure all scenes and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm-up", type=float, default=300.0, metavar="S", help="before each scene is measured")
    parser.add_argument("--minutes", type=float, default=10.0, help="of each scene")
    parser.add_argument("--pace", type=float, default=10.0, metavar="S", help="between items, where one serves")
    parser.add_argument("--json", action="store_true", help="print one JSON object a scene")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _board(Path(folder)) as (site, board):
        board.start()
        wait_for(lambda: "connected" in board.log.read_text(), what="a connected board")
        _show("idle", _measure(board, options, pace_s=0.0), as_json=options.json)
        _show("update", _update(site, board), as_json=options.json)
        _show("serving", _measure(board, options, pace_s=options.pace), as_json=options.json)
        board.stop()
        _show("start", {"seconds to serving": [_start(site, board) for _ in range(STARTS)]}, as_json=options.json)
    return 0


@contextmanager
def _board(folder: Path) -> Iterator[tuple[Site, PlainBoard]]:
    examples = folder / "examples"
    program = [sys.executable, "-m", "shoal_converters.note_events", "build", "--out", str(examples)]
    subprocess.run(program, check=True, timeout=1200, stdout=subprocess.DEVNULL)
    releases = build_folders(examples, out=folder)
    board = PlainBoard(folder / "board")
    board.disk.mkdir(parents=True)
    with _disk(folder / "disk.img", at=board.disk):
        site = Site(folder, environment={})
        try:
            site.publish({version: releases[version] for version in (11, 12)})
            board.enrol(site.make_token("board"))
            yield site, board
        finally:
            if board.is_running:
                board.stop()
            site.stop()


@contextmanager
def _disk(image: Path, *, at: Path) -> Iterator[None]:
    image.touch()
    os.truncate(image, DISK_BYTES)
    # Tables and journal are written now: else the kernel does it later, and it would be counted.
    eager = "lazy_itable_init=0,lazy_journal_init=0"
    program = shutil.which("mkfs.ext4") or "/usr/sbin/mkfs.ext4"
    subprocess.run([program, "-q", "-E", eager, str(image)], check=True)
    subprocess.run(["mount", "-o", "loop,noatime", str(image), str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def _measure(board: PlainBoard, options: argparse.Namespace, *, pace_s: float) -> dict[str, Any]:
    _wait(board, options.warm_up, pace_s=pace_s)
    traffic, written, processor = board.traffic(), board.written_bytes(), board.processor_s()
    began = time.monotonic()
    samples = _wait(board, options.minutes * 60, pace_s=pace_s)
    seconds = time.monotonic() - began
    stretched = DAY_S / seconds
    after = board.traffic()
    used = {name: total - processor.get(name, 0.0) for name, total in board.processor_s().items()}
    return {
        "minutes": round(seconds / 60, 1),
        "median PSS, MB": {name: round(statistics.median(all_of) / 1e6, 1) for name, all_of in samples["pss"].items()},
        "median RSS, MB": {name: round(statistics.median(all_of) / 1e6, 1) for name, all_of in samples["rss"].items()},
        "processor, % of a core": {name: round(100 * one / seconds, 3) for name, one in used.items()},
        "sent a day, MB": round((after.sent_bytes - traffic.sent_bytes) * stretched / 1e6, 3),
        "received a day, MB": round((after.received_bytes - traffic.received_bytes) * stretched / 1e6, 3),
        "segments a day": round((after.segments - traffic.segments) * stretched),
        "written to flash a day, MB": round((board.written_bytes() - written) * stretched / 1e6, 1),
    }


def _wait(board: PlainBoard, seconds: float, *, pace_s: float) -> dict[str, dict[str, list[int]]]:
    samples: dict[str, dict[str, list[int]]] = {"pss": {}, "rss": {}}
    end = time.monotonic() + seconds
    next_item = next_sample = time.monotonic()
    while (now := time.monotonic()) < end:
        if pace_s and now >= next_item:
            board.give()
            next_item += pace_s
        if now >= next_sample:
            for name, pid in board.processes().items():
                if (memory := read_memory(pid)) is not None:
                    samples["pss"].setdefault(name, []).append(memory.pss_bytes)
                    samples["rss"].setdefault(name, []).append(memory.rss_bytes)
            next_sample += SAMPLE_S
        time.sleep(0.1)
    return samples


def _update(site: Site, board: PlainBoard) -> dict[str, Any]:
    written, traffic = board.written_bytes(), board.traffic()
    rollout = site.roll_out(board, 11)
    with board.listening():
        wait_for(lambda: site.attempt(rollout)["state"] == "succeeded", what=lambda: site.attempt(rollout))
    files = sum(path.stat().st_size for path in (board.state / "store").iterdir())
    return {
        "files, MB": round(files / 1e6, 2),
        "written, MB": round((board.written_bytes() - written) / 1e6, 2),
        "with the broker, MB": round((board.traffic().total_bytes - traffic.total_bytes) / 1e6, 3),
    }


def _start(site: Site, board: PlainBoard) -> float:
    probe = board.give()
    began = time.monotonic()
    board.start()
    while site.version_that_answered(probe) is None:
        time.sleep(0.02)
    seconds = time.monotonic() - began
    board.stop()
    return round(seconds, 2)


def _agent() -> str:
    return str(Path(sys.executable).with_name("shoal-agent"))


def _number_of(folder: Path) -> str:
    device = folder.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _CLOCK_HZ


def _show(scene: str, values: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"scene": scene, **values}), flush=True)
        return
    print(scene)
    for name, value in values.items():
        print(f"  {name}: {value}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
