"""Where are a model's weights in plain, on a board that lived through everything? In memory, and nowhere on the disk.

One story: installed, tuned, updated, rolled back, made to dump its memory, killed in the midst of serving, and run in
every engine. Then every file is searched.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.system.processes import wait_for
from tests.faults.system.releases import GOOD, MODEL
from tests.faults.system.stage import Stage, open_stage
from tests.faults.system.weights import Weights
from tests.system.agent.engine_board import fetch_note_events, first_window, worker_of

pytestmark = pytest.mark.timeout(400)

FIRST, SECOND = GOOD[:2]
SHARED = [Path(name) for name in ("/tmp", "/var/tmp", "/dev/shm", "/run")]
OURS = "pytest-of-"
"""How folders of tests begin: what lies there is none of the board's, or is searched as the board's own."""
ENGINES = (("onnxruntime", "onnx"), ("openvino", "onnx"), ("openvino", "tflite"), ("litert", "tflite"))


class Lived(NamedTuple):
    """What became of the board."""

    stage: Stage
    weights: Weights
    core_files: list[str]
    left: list[Path]
    """Files in folders that all programs share, made meanwhile."""


@pytest.fixture(scope="module")
def dumping() -> Iterator[None]:
    """Children of this process may leave core files of any size."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    raise_core_limit()
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def raise_core_limit() -> None:
    """As far as this process may: beyond its hard limit only with CAP_SYS_RESOURCE."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


ABORTING = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
os.abort()
"""
"""A program that leaves a core file wherever one can be left."""


def configure(stage: Stage) -> None:
    board = stage.board
    (board.state / "agent.toml").write_text(
        'threads = 1\nengines = ["onnxruntime"]\n[tuning]\nat_install = false\n'
        f'[[sources]]\nkind = "folder"\nname = "sounds"\npath = "{board.items}"\nrelease = "{MODEL}"\n'
    )


def tune(stage: Stage) -> None:
    """As a person does, on the live board. On a busy machine so short a time may be too short for a verdict."""
    program = str(Path(sys.executable).with_name("shoal-agent"))
    command = [program, "tune", MODEL, "--state", str(stage.board.state), "--budget-s", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode in (0, 1) and "onnxruntime exact" in done.stderr, done.stderr


def run_in_each_engine(models: Mapping[str, bytes]) -> None:
    for engine, model_format in ENGINES:
        with worker_of(engine, models[model_format], model_format=model_format) as worker:
            worker.run({worker.info.inputs[0].name: first_window()}, deadline_s=60.0)


def core_files() -> set[str]:
    """In the folder where a worker runs; names as the default core pattern makes them."""
    return {path.name for path in Path("/").glob("core*")}


@pytest.fixture(scope="module")
def models(folders: dict[int, Path]) -> dict[str, bytes]:
    """The weights that the board gets, and the same network in another format."""
    onnx = next(path for path in folders[FIRST].iterdir() if path.suffix == ".onnx")
    return {"onnx": onnx.read_bytes(), "tflite": fetch_note_events()["tflite"]}


@pytest.fixture(scope="module")
def lived(
    folders: dict[int, Path], models: dict[str, bytes], dumping: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lived]:
    began, cores = time.time(), core_files()
    versions = {version: folders[version] for version in (FIRST, SECOND)}
    with open_stage(tmp_path_factory.mktemp("stage"), versions, environment={}) as stage:
        board = stage.board
        configure(stage)
        board.start()
        stage.update(FIRST)
        tune(stage)
        stage.update(SECOND)
        stage.update(FIRST)
        worker = board.workers()[0].pid
        os.kill(worker, signal.SIGABRT)
        wait_for(lambda: worker not in {process.pid for process in board.workers()}, what="another worker")
        board.kill_daemon()
        board.start()
        stage.expect_serving(FIRST)
        run_in_each_engine(models)
        yield Lived(stage, Weights(models.values()), sorted(core_files() - cores), list(made_since(began)))


def made_since(began: float) -> Iterator[Path]:
    """Files of this user in shared folders, without those of tests; what vanishes meanwhile is left out."""
    for root, folders, names in (found for folder in SHARED for found in os.walk(folder)):
        folders[:] = [name for name in folders if not name.startswith(OURS)]
        for path in (Path(root) / name for name in names):
            try:
                status = path.lstat()
                if path.is_file() and max(status.st_mtime, status.st_ctime) >= began and status.st_uid == os.geteuid():
                    yield path
            except OSError:
                continue


def test_search_finds_the_weights_where_they_must_be(lived: Lived) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may look into a worker")
    assert lived.weights.are_in_memory_of(lived.stage.board.workers()[0].pid)


def test_search_finds_a_piece_wherever_it_begins(lived: Lived, models: dict[str, bytes]) -> None:
    plain = models["tflite"]
    first = next(at for at in range(len(plain)) if len(set(plain[at : at + 64])) >= 40)
    for begin in range(first, first + 9):
        for shift in range(9):
            assert lived.weights.are_in(bytes(range(shift)) + plain[begin : begin + 64] + b"end")
    assert not lived.weights.are_in(bytes(reversed(plain)))


def test_no_file_of_the_board_holds_a_piece_of_the_weights(lived: Lived) -> None:
    board = lived.stage.board
    assert lived.weights.found_below([board.folder]) == []
    assert any((board.state / "store").iterdir()), "the sealed files are there to be searched"


def test_no_file_that_was_left_in_a_shared_folder_holds_any(lived: Lived) -> None:
    assert lived.weights.found_below(lived.left) == []


def test_fleet_has_no_plain_weights_either(lived: Lived) -> None:
    assert lived.weights.found_below([lived.stage.site.state]) == []


def test_aborted_worker_leaves_no_core_file_where_another_program_does(lived: Lived, tmp_path: Path) -> None:
    assert lived.core_files == []
    done = subprocess.run([sys.executable, "-c", ABORTING], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == -signal.SIGABRT
    if not list(tmp_path.iterdir()):
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        pytest.skip(f"no core file where a program runs: core pattern {pattern!r}, hard limit {hard} (-1: none)")
