"""Does any engine reach for the network or leave files behind?

Each runs in a network namespace without a way out, where the kernel counts whoever tries, and in a mount namespace in
which the usual places for files are empty and everything else can't be written to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import shoal_worker
from shoal_agent.front.probe_models import FEEDS, PROBE_MODELS, expected_sum

from tests.system.agent.engine_board import ENGINES, WAIT_S, interpreter_of, worker_of

pytestmark = pytest.mark.timeout(180)

NEEDED = (Path(sys.prefix), Path(shoal_worker.__file__))
EMPTY_FOLDERS = [
    folder for folder in ("/tmp", "/var/tmp") if not any(path.absolute().is_relative_to(folder) for path in NEEDED)
]
"""Those that don't hold the programs themselves; the others can't be written to like everything else."""
ISOLATE = ("unshare", "--map-root-user", "--net", "--mount")
MOUNTS = " && ".join(
    ["mount --make-rprivate /"]
    + [f"mount -t tmpfs none {folder}" for folder in EMPTY_FOLDERS]
    # Here a front puts the path by which OpenVINO finds a TFLite model.
    + ["mount --bind /dev/shm /dev/shm", "mount -o remount,bind,ro /dev/shm"]
    + ["mount -o remount,bind,ro /"]
)
REACH_OUT = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 53))"


@pytest.fixture(scope="module")
def may_isolate() -> None:
    done = subprocess.run([*ISOLATE, "sh", "-c", MOUNTS], capture_output=True, text=True, timeout=WAIT_S)
    if done.returncode != 0:
        pytest.skip(f"namespaces aren't allowed here: {done.stderr.strip()}")
    if os.geteuid() != 0:
        pytest.skip("only root may look into a worker's namespace")


def isolated(python: str, folder: Path) -> str:
    """A program that starts the interpreter in namespaces of its own, as the same process."""
    program = folder / "python"
    inner = f'{MOUNTS} && exec {python} "$@"'
    program.write_text(f"#!/bin/sh\nexec {' '.join(ISOLATE)} sh -c '{inner}' sh \"$@\"\n")
    program.chmod(0o700)
    return str(program)


def refused_attempts(text: str) -> int:
    """How often the kernel found no way out for a packet or a connection (ip(7), /proc/net/snmp and snmp6)."""
    lines = [line.split() for line in text.splitlines()]
    columns = next(line for line in lines if line[0] == "Ip:")
    values = next(line for line in lines if line[0] == "Ip:" and line is not columns)
    newer = next((int(line[1]) for line in lines if line[0] == "Ip6OutNoRoutes"), 0)
    return int(values[columns.index("OutNoRoutes")]) + newer


def read_counters(folder: Path) -> str:
    return (folder / "snmp").read_text() + (folder / "snmp6").read_text()


@pytest.mark.usefixtures("may_isolate")
def test_an_attempt_to_reach_the_network_would_be_counted() -> None:
    show = "print(open('/proc/self/net/snmp').read() + open('/proc/self/net/snmp6').read())"
    program = f"try:\n    {REACH_OUT}\nexcept OSError:\n    {show}"
    command = [*ISOLATE, sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert refused_attempts(done.stdout) == 1


@pytest.mark.usefixtures("may_isolate")
@pytest.mark.parametrize(("engine", "model_format"), [*ENGINES, ("openvino", "openvino")])
def test_an_engine_reaches_for_no_network_and_leaves_no_files(engine: str, model_format: str, tmp_path: Path) -> None:
    interpreter = isolated(interpreter_of(engine), tmp_path)
    with worker_of(engine, *PROBE_MODELS[model_format], model_format=model_format, interpreter=interpreter) as worker:
        (found,) = worker.run(FEEDS, deadline_s=WAIT_S).values()
        assert found.tolist() == expected_sum().tolist()
        process = Path(f"/proc/{worker.pid}")
        assert os.readlink(process / "ns/net") != os.readlink("/proc/self/ns/net")
        assert refused_attempts(read_counters(process / "net")) == 0
        left = {folder: os.listdir(f"{process}/root{folder}") for folder in EMPTY_FOLDERS}
        assert left == {folder: [] for folder in EMPTY_FOLDERS}
        assert os.readlink(process / "cwd") == "/"
        assert b"\0HOME=" not in (process / "environ").read_bytes()
