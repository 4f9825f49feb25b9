"""Does `shoal demo` show what it promises, and does none of its programs outlive it?"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SHOAL = str(Path(sys.executable).parent / "shoal")
DEMO_S = 300.0
GONE_S = 30.0
WEIGHTS_SEALED_BYTES = 230_000
"""What the example's network has when it is sealed, rounded down."""


class Program(NamedTuple):
    """A process, told from a later one of the same number by the time of its start."""

    pid: int
    parent: int
    started: str
    command: str


class Demo:
    """A demo that runs, and every program that was ever seen below it."""

    def __init__(self, state: Path, log: Path) -> None:
        self.state = state
        self.seen: set[Program] = set()
        self.lines: list[dict[str, Any]] = []
        command = [SHOAL, "demo", "--once", "--json", "--state", str(state)]
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)

    def read(self) -> Iterator[dict[str, Any]]:
        """Each step as it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen |= below(self.process.pid)
            self.lines.append(json.loads(line))
            yield self.lines[-1]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def assert_all_gone(self) -> None:
        """No program that was seen is there any more, and none at all that names the state folder."""
        deadline = time.monotonic() + GONE_S
        while left := [one for one in all_programs() if one in self.seen or str(self.state) in one.command]:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo that ran to its end."""
    folder = tmp_path_factory.mktemp("demo")
    demo = Demo(folder / "state", folder / "log")
    try:
        for _ in demo.read():
            pass
        demo.process.wait(DEMO_S)
        yield demo
    finally:
        demo.end()


def evidence(demo: Demo, step: str) -> Mapping[str, Any]:
    """Evidence of a step."""
    return next(line["evidence"] for line in demo.lines if line["step"] == step)


BOARDS = {
    "board-litert": ("litert", "tflite"),
    "board-onnxruntime": ("onnxruntime", "onnx"),
    "board-openvino": ("openvino", "openvino"),
}
"""Each with its engine, and the format that it must run of a network that comes in all of them."""
READ_TFLITE = {"board-litert": "litert", "board-openvino": "openvino"}
READS_DIGITS = "board-onnxruntime"


def boards(demo: Demo, step: str) -> Mapping[str, Mapping[str, Any]]:
    """Evidence of a step, board by board."""
    found: Mapping[str, Mapping[str, Any]] = evidence(demo, step)["boards"]
    return found


def test_every_step_holds_and_the_exit_code_says_so(shown: Demo) -> None:
    releases = ("release-1", "release-2", "release-3", "release-4")
    steps = ("start", "enrol", "models", *releases, "faces", "digits-fp32", "digits-int8", "answers")
    assert [(line["step"], line["ok"]) for line in shown.lines] == [(step, True) for step in steps]
    assert shown.process.returncode == 0
    assert all(sorted(line) == ["evidence", "ok", "step"] for line in shown.lines)
    assert all(line["evidence"]["seconds"] >= 0 for line in shown.lines)


def test_each_board_has_an_id_of_its_own_and_a_token_enrols_one_board_only(shown: Demo) -> None:
    devices = {name: found["device"] for name, found in boards(shown, "enrol").items()}
    assert devices.keys() == BOARDS.keys()
    assert len(set(devices.values())) == len(BOARDS)
    assert evidence(shown, "enrol")["token_worked_twice"] is False


@pytest.mark.parametrize(("step", "weights"), [("release-1", True), ("release-2", False)])
def test_good_releases_are_committed_and_the_same_weights_are_not_fetched_twice(
    shown: Demo, step: str, weights: bool
) -> None:
    assert evidence(shown, step)["rollout"] == "succeeded"
    assert (evidence(shown, step)["uploaded_bytes"] > 3 * WEIGHTS_SEALED_BYTES) is weights
    for found in boards(shown, step).values():
        assert found["update_state"] == "committed"
        assert found["current_manifest_sha256"] == found["target_manifest_sha256"]
        assert (found["fetched_bytes"] > WEIGHTS_SEALED_BYTES) is weights


def test_each_board_fetches_and_runs_the_network_in_its_own_format_only(shown: Demo) -> None:
    for step in ("release-1", "release-2", "release-3", "release-4"):
        ran = {name: (one["engine"].split()[0], one["format"]) for name, one in boards(shown, step).items()}
        assert ran == BOARDS
    fetched = [one["fetched_bytes"] for one in boards(shown, "release-1").values()]
    assert all(number < evidence(shown, "release-1")["uploaded_bytes"] - WEIGHTS_SEALED_BYTES for number in fetched)


@pytest.mark.parametrize(
    ("step", "state", "why"), [("release-3", "fell-back", "p95 "), ("release-4", "refused", "golden cases: ")]
)
def test_every_board_goes_back_to_the_good_release_and_says_why(shown: Demo, step: str, state: str, why: str) -> None:
    good = {name: found["current_manifest_sha256"] for name, found in boards(shown, "release-2").items()}
    assert evidence(shown, step)["rollout"] == "failed"
    for name, found in boards(shown, step).items():
        assert found["update_state"] == state
        assert why in found["reason"]
        assert found["current_manifest_sha256"] == good[name]
        assert found["target_manifest_sha256"] != good[name]


def test_faces_are_found_by_the_boards_that_read_the_second_model(shown: Demo) -> None:
    assert evidence(shown, "faces")["rollout"] == "succeeded"
    assert {name: one["engine"].split()[0] for name, one in boards(shown, "faces").items()} == READ_TFLITE
    assert {one["format"] for one in boards(shown, "faces").values()} == {"tflite"}


@pytest.mark.parametrize(("step", "variant"), [("digits-fp32", "onnx-fp32"), ("digits-int8", "onnx-int8")])
def test_digits_are_read_in_fp32_and_then_in_int8(shown: Demo, step: str, variant: str) -> None:
    assert evidence(shown, step)["rollout"] == "succeeded"
    (served,) = boards(shown, step).items()
    assert (served[0], served[1]["variant"], served[1]["update_state"]) == (READS_DIGITS, variant, "committed")
    answered = evidence(shown, step)["answered"][variant]
    assert answered["answers"] >= 30
    assert answered["right"] >= 0.95 * answered["answers"]


def test_int8_is_a_quarter_of_the_size_and_as_right(shown: Demo) -> None:
    report = evidence(shown, "digits-int8")["report"]
    assert 0.2 < report["size_ratio"] < 0.3
    assert report["accuracy"]["onnx-int8"] >= report["accuracy"]["onnx-fp32"] - 0.01
    assert "smaller" in report["claims"]
    assert report["speed_ratio"] > 0
    fetched = [boards(shown, step)[READS_DIGITS]["fetched_bytes"] for step in ("digits-int8", "digits-fp32")]
    assert fetched[0] < 0.3 * fetched[1]
    for version in (1, 2):
        assert (shown.state / "releases" / "digits" / f"release-{version}" / "report.html").is_file()


@pytest.mark.parametrize("name", BOARDS)
def test_reports_are_new_ones_each_time(shown: Demo, name: str) -> None:
    counters = [boards(shown, f"release-{version}")[name]["reported_counter"] for version in (1, 2, 3, 4)]
    assert counters == sorted(set(counters))


@pytest.mark.parametrize("name", BOARDS)
def test_every_item_has_one_answer(shown: Demo, name: str) -> None:
    found = boards(shown, "answers")[name]
    assert found["sounds"] > 20
    assert ("photographs" in found) is (name in READ_TFLITE)
    assert ("digits" in found) is (name == READS_DIGITS)
    assert sum(found.get(source, 0) for source in ("sounds", "photographs", "digits")) == found["answers"]
    assert not any(found[fault] for fault in ("missing", "twice", "foreign", "refused", "left_in_folder"))


def test_publishers_keys_are_nowhere_else(shown: Demo) -> None:
    keys = {path.read_bytes() for path in (shown.state / "publisher").rglob("*") if path.is_file()}
    for folder in ("fleet", "boards", "operator", "logs"):
        assert keys.isdisjoint(path.read_bytes() for path in (shown.state / folder).rglob("*.pem"))


def test_all_programs_have_ended_with_the_demo(shown: Demo) -> None:
    assert {"fleet", "mosquitto", "agent", "front", "worker"} <= kinds(shown.seen)
    shown.assert_all_gone()


def test_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    ran = subprocess.run(
        [SHOAL, "demo", "--once", "--state", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert "holds something else" in ran.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "precious"]


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
    ],
    ids=lambda number: number.name,
)
def test_no_program_outlives_a_demo_that_is_ended_in_the_middle(tmp_path: Path, number: signal.Signals) -> None:
    demo = Demo(tmp_path / "state", tmp_path / "log")
    try:
        for line in demo.read():
            if line["step"] == "enrol":
                break
        demo.seen |= below(demo.process.pid)
        assert {"fleet", "mosquitto", "agent"} <= kinds(demo.seen)
        demo.process.send_signal(number)
        demo.process.wait(GONE_S)
        demo.assert_all_gone()
    finally:
        demo.end()


@pytest.mark.long
def test_demo_ends_with_its_fleet_and_the_broker_with_both(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "state", tmp_path / "log")
    try:
        for line in demo.read():
            if line["step"] == "enrol":
                os.kill(next(one.pid for one in demo.seen if kind_of(one) == "fleet"), signal.SIGKILL)
        assert demo.process.wait(DEMO_S) == 1
        assert [line["ok"] for line in demo.lines].count(False) == 1
        assert "error" in demo.lines[-1]["evidence"]
        demo.assert_all_gone()
        assert "shoal: " in (tmp_path / "log").read_text()
        assert "Traceback" not in (tmp_path / "log").read_text()
    finally:
        demo.end()


_KINDS = {
    "fleet": "shoal-fleet serve",
    "mosquitto": "mosquitto -c",
    "agent": "shoal-agent run",
    "front": "shoal_agent.front",
    "worker": "shoal_worker",
}


def kinds(programs: set[Program]) -> set[str | None]:
    return {kind_of(one) for one in programs}


def kind_of(program: Program) -> str | None:
    """Which of the product's programs it is, if any; what starts it with `setpriv` is none yet."""
    if "setpriv" in program.command:
        return None
    return next((kind for kind, words in _KINDS.items() if words in program.command), None)


def below(pid: int) -> set[Program]:
    """All programs that a process has started, and those that these have."""
    programs, found, parents = all_programs(), set[Program](), {pid}
    while children := {one for one in programs if one.parent in parents} - found:
        found |= children
        parents = {one.pid for one in children}
    return found


def all_programs() -> list[Program]:
    """Every process of this machine that has a command line: a zombie has none."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if command:
            found.append(Program(int(folder.name), int(fields[1]), fields[19], command))
    return found
