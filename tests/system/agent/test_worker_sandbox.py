"""What can a model do that took its engine over, and do the real engines still get what they need?"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.probe_models import FEEDS, PROBE_MODELS, expected_sum
from shoal_worker import landlock, seccomp
from shoal_worker.messages import Loaded

from tests.system.agent import intruder_engine, older_kernel
from tests.system.agent.engine_board import ENGINES, WAIT_S, interpreter_of, worker_of
from tests.system.agent.intruder_engine import all_attempts, file_attempts, needs, other_attempts
from tests.system.agent.plug_in_python import make_python

pytestmark = pytest.mark.timeout(180)

REFUSED = {errno.EPERM, errno.EACCES, errno.EROFS}
READING = {"list the state folder", "read the device's key", "read what others do", "open its parent's memory"} | {
    *("read its parent's variables", "list its parent's files", "append to a file of the state folder"),
}
"""What only Landlock keeps from a worker: reading, and writing to what is there where its engine may use accelerators.
A front's promise not to be dumped keeps its memory from its workers too, but for root."""
CREATING = {"write to nowhere"}
"""What an engine goes without where no Landlock watches over files."""


def needs_landlock() -> None:
    if not landlock.find_abi():
        pytest.skip("this kernel has no Landlock, or was started without it")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    engine = Path(intruder_engine.__file__)
    return make_python(tmp_path_factory.mktemp("intruder"), engine=engine, names={"intruder": "intruder"})


@pytest.fixture
def model(tmp_path: Path) -> dict[str, str]:
    """The model, and what it goes for."""
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    state.mkdir(mode=0o700)
    (state / "key").write_bytes(b"private")
    (state / "key").chmod(0o600)
    scratch.mkdir()
    scratch.chmod(0o1777)
    for name in ("theirs", "other"):
        (scratch / name).write_bytes(b"theirs")
    return {"state": str(state), "scratch": str(scratch)}


def as_if_older(python: str, folder: Path, *hidden: str) -> str:
    """The interpreter on a kernel that lacks something."""
    program = folder / "older-python"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -I {older_kernel.__file__} {",".join(hidden)} {python} "$@"\n'
    )
    program.chmod(0o700)
    return str(program)


def break_out(python: str, model: dict[str, str]) -> tuple[dict[str, int], Loaded]:
    """Error number of each attempt in a worker, and what the worker said of itself."""
    raw = json.dumps(model).encode()
    with worker_of("intruder", raw, model_format="intruder", interpreter=python) as worker:
        outputs = worker.run({"x": np.zeros(1, np.float32)}, deadline_s=WAIT_S)
        return dict(zip(all_attempts(model), outputs["errors"].tolist(), strict=True)), worker.info


def what_came_through(errors: dict[str, int]) -> set[str]:
    return {name for name, error in errors.items() if error not in REFUSED}


def test_every_attempt_on_files_comes_through_where_nobody_holds_it(model: dict[str, str]) -> None:
    command = [sys.executable, "-I", intruder_engine.__file__, json.dumps(model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert json.loads(done.stdout) == dict.fromkeys(file_attempts(Path(model["state"]), Path(model["scratch"])), 0)


def test_model_gets_at_nothing_outside_its_worker(python: str, model: dict[str, str]) -> None:
    needs_landlock()
    errors, info = break_out(python, model)
    assert what_came_through(errors) == set(needs())
    assert {name: errors[name] for name in needs()} == dict.fromkeys(needs(), 0)
    assert (Path(model["state"]) / "key").read_bytes() == b"private"
    assert sorted(os.listdir(model["scratch"])) == ["other", "theirs"]
    assert info.sandbox == (f"landlock {min(landlock.find_abi(), landlock.NEWEST_ABI)}", "seccomp")
    assert info.sandbox_gaps == ()


def test_without_landlock_it_may_read_but_changes_and_reaches_nothing(
    python: str, model: dict[str, str], tmp_path: Path
) -> None:
    errors, info = break_out(as_if_older(python, tmp_path, "landlock"), model)
    assert what_came_through(errors) <= (set(needs()) - CREATING) | READING
    assert {name: errors[name] for name in set(needs()) - CREATING} == dict.fromkeys(set(needs()) - CREATING, 0)
    assert sorted(os.listdir(model["state"])) == ["key"]
    assert info.sandbox == ("seccomp",)
    assert [gap.partition(":")[0] for gap in info.sandbox_gaps] == ["landlock"]


def test_kernel_with_neither_is_told_and_the_worker_goes_on(tmp_path: Path) -> None:
    interpreter = as_if_older(sys.executable, tmp_path, "landlock", "seccomp")
    with worker_of("onnxruntime", *PROBE_MODELS["onnx"], model_format="onnx", interpreter=interpreter) as worker:
        (found,) = worker.run(FEEDS, deadline_s=WAIT_S).values()
        assert found.tolist() == expected_sum().tolist()
        assert worker.info.sandbox == ()
        assert [gap.partition(":")[0] for gap in worker.info.sandbox_gaps] == ["landlock", "seccomp"]


@pytest.mark.parametrize("hidden", [(), ("landlock",)], ids=["as it is", "without landlock"])
@pytest.mark.parametrize(("engine", "model_format"), [*ENGINES, ("openvino", "openvino")])
def test_real_engine_answers_in_its_sandbox(
    engine: str, model_format: str, hidden: tuple[str, ...], tmp_path: Path
) -> None:
    interpreter = interpreter_of(engine)
    if hidden:
        interpreter = as_if_older(interpreter, tmp_path, *hidden)
    with worker_of(engine, *PROBE_MODELS[model_format], model_format=model_format, interpreter=interpreter) as worker:
        (found,) = worker.run(FEEDS, deadline_s=WAIT_S).values()
        assert found.tolist() == expected_sum().tolist()
        expected = {"seccomp"} if seccomp.is_available(os.uname().machine) else set()
        assert expected <= set(worker.info.sandbox)


FRONT = """
import json, runpy, sys
from shoal_worker.sandbox import enter_front
intruder = runpy.run_path(sys.argv[1])
enter_front()
attempts = intruder["other_attempts"]()
print(json.dumps(intruder["errors_of"]({name: attempts[name] for name in json.loads(sys.argv[2])})))
"""
LEFT_TO_A_FRONT = ["open a Unix socket", "start a program", "fork", "spawn a shell"]
KEPT_FROM_A_FRONT = [
    *("open an IPv4 socket", "open an IPv6 socket", "open a netlink socket", "trace its parent"),
    *("read its parent's memory", "mount", "become root of a namespace", "ask for keys", "watch performance"),
    *("load a program into the kernel", "handle its own page faults", "queue calls past the filter"),
]


def test_front_keeps_programs_and_the_boards_own_sockets_and_no_network() -> None:
    if not seccomp.is_available(os.uname().machine):
        pytest.skip("this kernel takes no filters of system calls")
    names = json.dumps([*LEFT_TO_A_FRONT, *KEPT_FROM_A_FRONT])
    command = [sys.executable, "-c", FRONT, intruder_engine.__file__, names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    expected = dict.fromkeys(LEFT_TO_A_FRONT, 0) | dict.fromkeys(KEPT_FROM_A_FRONT, errno.EPERM)
    assert json.loads(done.stdout) == expected


def test_every_attempt_is_listed_once() -> None:
    groups = (file_attempts(Path("/nowhere"), Path("/nowhere")), other_attempts(), needs())
    assert sum(map(len, groups)) == len(all_attempts({"state": "/nowhere", "scratch": "/nowhere"}))
