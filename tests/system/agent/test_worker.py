"""Does a front get its answers from a real worker process, and get rid of it whatever happens?"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.worker import DeadlineMissed, Worker, WorkerOptions
from shoal_agent.front.worker_process import WorkerDied, WorkerEnded, WorkerHung, WorkerLost
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused
from shoal_worker.memory import seal_bytes

from tests.onnx_bytes import add_model, matmul_chain_model

pytestmark = pytest.mark.timeout(120)

WAIT_S = 30.0
ONES = np.ones((2, 3), np.float32)
ONE_THREAD = WorkerOptions(threads=1)
SLOW_SIZE = 1024


def start_worker(
    model: bytes, *, interpreter: str = sys.executable, options: WorkerOptions = ONE_THREAD, timeout_s: float = WAIT_S
) -> Worker:
    model_fd = seal_bytes(model)
    try:
        return Worker.start(interpreter, engine="onnxruntime", model_fd=model_fd, options=options, timeout_s=timeout_s)
    finally:
        os.close(model_fd)


def add(worker: Worker) -> list[list[float]]:
    outputs = worker.run({"left": ONES, "right": 2 * ONES}, deadline_s=WAIT_S)
    rows: list[list[float]] = outputs["sum"].tolist()
    return rows


def slow_model() -> bytes:
    """Many seconds a run, made of operators of some milliseconds."""
    return matmul_chain_model(size=SLOW_SIZE, length=1000)


def slow_feeds() -> dict[str, np.ndarray]:
    return {"x": np.zeros((SLOW_SIZE, SLOW_SIZE), np.float32)}


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """No such process, or only its exit code is left (its new parent may not collect it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


@contextmanager
def no_leak() -> Iterator[None]:
    """After the block this process holds the descriptors and shared memory that it held before."""

    def held() -> tuple[int, int]:
        mapped = Path("/proc/self/maps").read_text().count("memfd:shoal")
        return len(os.listdir("/proc/self/fd")), mapped

    before = held()
    yield
    assert held() == before


@pytest.fixture(scope="module", autouse=True)
def spawner_started() -> None:
    """The thread that makes children is kept: start it before anything is counted."""
    start_worker(add_model()).close()


@pytest.fixture(scope="module")
def foreign_interpreter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of its own that has NumPy and the engine, and nothing else of what is installed here."""
    folder = tmp_path_factory.mktemp("foreign")
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    for name in ("numpy", "onnxruntime"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        installed = Path(spec.origin).parent
        for path in (installed, installed.with_name(f"{name}.libs")):
            if path.exists():
                (packages / path.name).symlink_to(path)
    return str(folder / "bin/python")


def test_answers_and_tells_what_it_is() -> None:
    with no_leak(), start_worker(add_model(), options=WorkerOptions(threads=1, nice=3)) as worker:
        assert add(worker) == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]
        assert worker.info.engine == "onnxruntime"
        assert worker.info.placement == ("CPUExecutionProvider",)
        assert [spec.shape for spec in worker.info.inputs] == [(None, 3), (None, 3)]
        assert worker.info.rss_bytes > 1 << 20
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3


def test_outputs_are_the_callers_own() -> None:
    with start_worker(add_model()) as worker:
        first = worker.run({"left": ONES, "right": ONES}, deadline_s=WAIT_S)["sum"]
        worker.run({"left": 9 * ONES, "right": ONES}, deadline_s=WAIT_S)
        assert first.tolist() == [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]


def test_inputs_and_outputs_may_grow_and_shrink() -> None:
    with no_leak(), start_worker(add_model()) as worker:
        for rows in (1, 100_000, 3, 200_000, 0):
            array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
            outputs = worker.run({"left": array, "right": array}, deadline_s=WAIT_S)
            np.testing.assert_array_equal(outputs["sum"], array * 2)


def test_runs_in_an_interpreter_that_has_nothing_of_ours(foreign_interpreter: str) -> None:
    for package in ("shoal_agent", "shoal_worker", "shoal_wire", "msgspec"):
        done = subprocess.run([foreign_interpreter, "-I", "-c", f"import {package}"], capture_output=True, timeout=60)
        assert b"ModuleNotFoundError" in done.stderr
    with start_worker(add_model(), interpreter=foreign_interpreter) as worker:
        assert add(worker) == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]


def test_environment_of_the_worker_is_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("SHOAL_SECRET", "5ecret")
    with start_worker(add_model(), options=WorkerOptions(threads=2)) as worker:
        program = [sys.executable, "-c", f"print(open('/proc/{worker.pid}/environ', 'rb').read())"]
        if os.geteuid() != 0:
            pytest.skip("the memory of a worker that can't be dumped is shown to root only")
        shown = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "OMP_NUM_THREADS=2" in shown
    assert "PYTHONPATH" not in shown
    assert "5ecret" not in shown


@pytest.mark.parametrize("interpreter", ["/nowhere/python", "/dev/null"])
def test_interpreter_that_cannot_be_started_is_named(interpreter: str) -> None:
    with no_leak(), pytest.raises(EngineMissing, match=f"interpreter {interpreter} can't be started"):
        start_worker(add_model(), interpreter=interpreter)


def test_interpreter_without_the_engine_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True, with_pip=False)
    with no_leak(), pytest.raises(EngineMissing, match="can't import engine onnxruntime"):
        start_worker(add_model(), interpreter=str(tmp_path / "bin/python"))


def test_program_that_is_no_worker_is_told() -> None:
    with no_leak(), pytest.raises(WorkerDied, match="ended with exit code 1"):
        start_worker(add_model(), interpreter="/bin/false")


@pytest.mark.parametrize("model", [b"", b"not a model", add_model()[:-20]], ids=["empty", "text", "truncated"])
def test_bytes_that_are_no_model_are_refused(model: bytes) -> None:
    with no_leak(), pytest.raises(ModelRefused, match="onnxruntime doesn't take the model"):
        start_worker(model)


def test_memory_that_is_not_sealed_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(add_model())
    with no_leak(), path.open("rb") as file, pytest.raises(WorkerDied, match="ended with exit code 2"):
        Worker.start(sys.executable, engine="onnxruntime", model_fd=file.fileno(), options=ONE_THREAD)


def test_worker_survives_bad_requests() -> None:
    with start_worker(add_model()) as worker:
        with pytest.raises(BadTensor, match=r"inputs are \['left', 'right'\], found \['left'\]"):
            worker.run({"left": ONES}, deadline_s=WAIT_S)
        with pytest.raises(BadTensor, match=r"'left' is float32 \[any, 3\], found float64"):
            worker.run({"left": ONES.astype(np.float64), "right": ONES}, deadline_s=WAIT_S)
        with pytest.raises(BadTensor, match=r"found float32 \[2, 4\]"):
            worker.run({"left": ONES, "right": np.ones((2, 4), np.float32)}, deadline_s=WAIT_S)
        with pytest.raises(BadTensor, match=r"'right' is float32 \[any, 3\], found str"):
            worker.run({"left": ONES, "right": np.array([["text"]])}, deadline_s=WAIT_S)
        with pytest.raises(BadTensor, match="inputs are"):
            worker.run({f"x{index}": ONES for index in range(1000)}, deadline_s=WAIT_S)
        with pytest.raises(EngineFailed, match="broadcast"):
            worker.run({"left": ONES, "right": np.ones((5, 3), np.float32)}, deadline_s=WAIT_S)
        assert add(worker) == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]


def test_run_over_its_deadline_is_stopped_and_the_worker_stays() -> None:
    with no_leak(), start_worker(slow_model()) as worker:
        for _ in range(2):
            with pytest.raises(DeadlineMissed):
                worker.run(slow_feeds(), deadline_s=0.1)
        assert not is_gone(worker.pid)


def test_worker_that_does_not_answer_is_killed() -> None:
    with no_leak(), start_worker(add_model()) as worker:
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(WorkerHung, match="was killed"):
            worker.run({"left": ONES, "right": ONES}, deadline_s=0.1)
        assert is_gone(worker.pid)
        with pytest.raises(WorkerEnded):
            add(worker)


def test_interpreter_that_never_says_hello_is_killed(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 1000\n")
    silent.chmod(0o700)
    with no_leak(), pytest.raises(WorkerHung):
        start_worker(add_model(), interpreter=str(silent), timeout_s=0.3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_death_of_the_worker_is_told_and_gives_everything_back(number: signal.Signals) -> None:
    with no_leak(), start_worker(add_model()) as worker:
        add(worker)
        os.kill(worker.pid, number)
        with pytest.raises(WorkerDied, match=f"was killed by signal {number.value}") as caught:
            add(worker)
        assert caught.value.exit_code == -number.value


def test_death_in_the_middle_of_a_run_is_told() -> None:
    with no_leak(), start_worker(slow_model()) as worker:
        killer = threading.Thread(target=kill_when_busy, args=(worker.pid,))
        killer.start()
        with pytest.raises(WorkerDied):
            worker.run(slow_feeds(), deadline_s=WAIT_S)
        killer.join()


def kill_when_busy(pid: int) -> None:
    at_rest = cpu_ticks(pid)
    wait_until(lambda: cpu_ticks(pid) > at_rest + 10)
    os.kill(pid, signal.SIGKILL)


def test_close_waits_for_the_run_in_progress() -> None:
    answers: list[int] = []
    worker = start_worker(matmul_chain_model(size=SLOW_SIZE, length=20))
    at_rest = cpu_ticks(worker.pid)
    runner = threading.Thread(target=lambda: answers.append(len(worker.run(slow_feeds(), deadline_s=WAIT_S))))
    runner.start()
    wait_until(lambda: cpu_ticks(worker.pid) > at_rest)
    worker.close(drain_s=WAIT_S)
    runner.join()
    assert answers == [1]
    assert is_gone(worker.pid)


def test_close_ends_a_run_that_takes_too_long() -> None:
    errors: list[WorkerLost] = []

    def run() -> None:
        try:
            worker.run(slow_feeds(), deadline_s=WAIT_S)
        except WorkerLost as error:
            errors.append(error)

    with no_leak():
        worker = start_worker(slow_model())
        at_rest = cpu_ticks(worker.pid)
        runner = threading.Thread(target=run)
        runner.start()
        wait_until(lambda: cpu_ticks(worker.pid) > at_rest)
        worker.close(drain_s=0.1)
        runner.join()
        assert [type(error) for error in errors] == [WorkerEnded]
        assert is_gone(worker.pid)


def test_threads_may_share_a_worker() -> None:
    wrong: list[object] = []

    def run(factor: int) -> None:
        for _ in range(20):
            outputs = worker.run({"left": factor * ONES, "right": ONES}, deadline_s=WAIT_S)
            if outputs["sum"].tolist() != [[factor + 1.0] * 3] * 2:
                wrong.append(outputs)

    with start_worker(add_model()) as worker:
        threads = [threading.Thread(target=run, args=(factor,)) for factor in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_worker_outlives_the_thread_that_started_it() -> None:
    started: list[Worker] = []
    thread = threading.Thread(target=lambda: started.append(start_worker(add_model())))
    thread.start()
    thread.join()
    with started[0] as worker:
        assert add(worker) == [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]


def test_worker_ends_with_its_front_in_the_middle_of_a_run(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(slow_model())
    program = textwrap.dedent(f"""
        import sys, numpy as np
        from pathlib import Path
        from shoal_agent.front.worker import Worker, WorkerOptions
        from shoal_worker.memory import seal_bytes

        fd = seal_bytes(Path({str(model)!r}).read_bytes())
        worker = Worker.start(sys.executable, engine="onnxruntime", model_fd=fd, options=WorkerOptions(threads=1))
        print(worker.pid, flush=True)
        worker.run({{"x": np.zeros(({SLOW_SIZE}, {SLOW_SIZE}), np.float32)}}, deadline_s=1000)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        pid = int(front.stdout.readline())
        at_rest = cpu_ticks(pid)
        wait_until(lambda: cpu_ticks(pid) > at_rest + 5)
        front.kill()
    wait_until(lambda: is_gone(pid))
