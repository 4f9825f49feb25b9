"""Do all engines that are installed here answer alike, keep to their threads, stop, and stay within their process?"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.worker import DeadlineMissed, WorkerOptions
from shoal_agent.front.worker_process import WorkerDied, WorkerHung
from shoal_worker.errors import EngineMissing, ModelRefused

from tests import onnx_bytes, tflite_bytes
from tests.system.agent.engine_board import (
    ENGINES,
    ROOT,
    SPREAD,
    TFLITE_PYTHON,
    WAIT_S,
    fetch_note_events,
    first_window,
    interpreter_of,
    worker_of,
)

pytestmark = pytest.mark.timeout(180)

SLOW_SIZE, SLOW_ROWS = 1024, 1 << 14
WEIGHTS = np.array([[10, -5, 2.5], [0.1, 0.2, -0.3]], np.float32)
X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture(scope="module")
def note_events() -> dict[str, bytes]:
    return fetch_note_events()


@pytest.fixture(scope="module")
def window() -> np.ndarray:
    return first_window()


@pytest.fixture(scope="module")
def reference(note_events: dict[str, bytes], window: np.ndarray) -> dict[str, np.ndarray]:
    """What ONNX Runtime answers."""
    with worker_of("onnxruntime", note_events["onnx"], model_format="onnx") as worker:
        return worker.run({worker.info.inputs[0].name: window}, deadline_s=WAIT_S)


@pytest.mark.parametrize(("engine", "model_format"), ENGINES[1:])
@pytest.mark.parametrize("threads", [1, 2])
def test_engines_agree_on_a_trained_network(
    engine: str,
    model_format: str,
    threads: int,
    note_events: dict[str, bytes],
    window: np.ndarray,
    reference: dict[str, np.ndarray],
) -> None:
    options = WorkerOptions(threads=threads)
    with worker_of(engine, note_events[model_format], model_format=model_format, options=options) as worker:
        outputs = worker.run({worker.info.inputs[0].name: window}, deadline_s=WAIT_S)
    assert outputs.keys() == reference.keys()
    assert max(array.max() for array in reference.values()) > 0.5, "nothing is heard in this sound"
    for name, expected in reference.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=SPREAD)


@pytest.mark.parametrize(("engine", "model_format"), ENGINES)
def test_a_batch_gives_each_item_its_own_answer(
    engine: str, model_format: str, note_events: dict[str, bytes], window: np.ndarray, reference: dict[str, np.ndarray]
) -> None:
    batch = np.concatenate([window, np.zeros_like(window)])
    with worker_of(engine, note_events[model_format], model_format=model_format) as worker:
        outputs = worker.run({worker.info.inputs[0].name: batch}, deadline_s=WAIT_S)
    for name, expected in reference.items():
        np.testing.assert_allclose(outputs[name][:1], expected, rtol=0, atol=SPREAD)
        assert outputs[name][1:].max() < 0.5, "silence has no notes"


def slow_model(model_format: str) -> tuple[bytes, tuple[int, int]]:
    """Many seconds a run, made of operators of less than a second, and the shape of its input."""
    if model_format == "onnx":
        return onnx_bytes.matmul_chain_model(size=SLOW_SIZE, length=1000), (SLOW_SIZE, SLOW_SIZE)
    # An engine keeps weights once for each operator, so it has few of them and long inputs.
    return tflite_bytes.matmul_model(size=SLOW_SIZE, rows=SLOW_ROWS, repeats=60), (SLOW_ROWS, SLOW_SIZE)


@pytest.mark.parametrize(
    ("engine", "model_format", "outcome"),
    [
        ("onnxruntime", "onnx", DeadlineMissed),
        ("openvino", "onnx", DeadlineMissed),
        ("litert", "tflite", WorkerHung),
        ("tflite-runtime", "tflite", WorkerHung),
    ],
)
def test_a_run_over_its_deadline_ends_with_or_without_the_worker(
    engine: str, model_format: str, outcome: type[Exception]
) -> None:
    model, shape = slow_model(model_format)
    with worker_of(engine, model, model_format=model_format) as worker:
        with pytest.raises(outcome):
            worker.run({"x": np.zeros(shape, np.float32)}, deadline_s=0.1)
        assert Path(f"/proc/{worker.pid}").exists() == (outcome is DeadlineMissed)


@pytest.mark.parametrize(
    ("engine", "model_format"), [("onnxruntime", "onnx"), ("litert", "tflite"), ("tflite-runtime", "tflite")]
)
def test_an_engine_makes_threads_only_where_it_may_use_them(
    engine: str, model_format: str, note_events: dict[str, bytes], window: np.ndarray
) -> None:
    def threads_of(threads: int) -> int:
        options = WorkerOptions(threads=threads)
        with worker_of(engine, note_events[model_format], model_format=model_format, options=options) as worker:
            worker.run({worker.info.inputs[0].name: window}, deadline_s=WAIT_S)
            return len(list(Path(f"/proc/{worker.pid}/task").iterdir()))

    assert threads_of(1) < threads_of(2)


def test_bytes_that_kill_tflite_runtime_cost_its_worker_only() -> None:
    with (
        pytest.raises(WorkerDied, match=r"killed by signal 11 \(Segmentation fault\)") as caught,
        worker_of("tflite-runtime", tflite_bytes.without_buffers(tflite_bytes.add_model()), model_format="tflite"),
    ):
        pass
    assert caught.value.exit_code == -11


@pytest.mark.parametrize("part", [0.01, 0.25, 0.5, 0.9, 0.99])
def test_a_cut_off_file_is_refused_before_tflite_runtime_sees_it(part: float, note_events: dict[str, bytes]) -> None:
    model = note_events["tflite"]
    with (
        pytest.raises(ModelRefused, match="a reference leads to byte"),
        worker_of("tflite-runtime", model[: int(len(model) * part)], model_format="tflite"),
    ):
        pass


def test_tflite_runtime_is_not_given_what_it_would_compute_wrongly() -> None:
    model = tflite_bytes.hybrid_model(WEIGHTS, is_per_channel=True)
    program = (
        "import sys, numpy; from tflite_runtime.interpreter import Interpreter\n"
        "engine = Interpreter(model_content=sys.stdin.buffer.read()); engine.allocate_tensors()\n"
        "engine.set_tensor(0, numpy.array([[1, -2, 3]], 'f4')); engine.invoke(); print(engine.get_tensor(2).tolist())"
    )
    command = [interpreter_of("tflite-runtime"), "-I", "-c", program]
    bare = subprocess.run(command, input=model, capture_output=True, check=True, timeout=WAIT_S)
    assert bare.stdout == b"[[0.0, 0.0]]\n"  # 27.5 and -1.2 would be right

    with (
        pytest.raises(ModelRefused, match="would answer wrongly: FULLY_CONNECTED with weights 'weights'"),
        worker_of("tflite-runtime", model, model_format="tflite"),
    ):
        pass


@pytest.mark.parametrize("engine", ["litert", "openvino", "tflite-runtime"])
def test_dynamic_range_models_with_one_scale_are_computed_right(engine: str) -> None:
    model = tflite_bytes.hybrid_model(WEIGHTS, is_per_channel=False)
    with worker_of(engine, model, model_format="tflite") as worker:
        found = worker.run({"x": X}, deadline_s=WAIT_S)["y"]
    # Input and weights are each rounded to steps of a 127th of the largest.
    step = 10 / 127 * np.abs(X).sum() + 3 / 127 * np.abs(WEIGHTS).sum(axis=1)
    assert np.all(np.abs(found - X @ WEIGHTS.T) <= step / 2 + 1e-3)


def test_tflite_runtime_with_numpy_2_is_refused_with_a_reason(tmp_path: Path) -> None:
    interpreter_of("tflite-runtime")
    venv.create(tmp_path, symlinks=True, with_pip=False)
    packages = next(tmp_path.glob("lib/python*/site-packages"))
    numpy = importlib.util.find_spec("numpy")
    assert numpy is not None and numpy.origin is not None
    if sys.version_info[:2] != (3, 11) or np.__version__.startswith("1."):
        pytest.skip("needs NumPy 2 for Python 3.11 here, to set it beside tflite-runtime")
    installed = Path(numpy.origin).parent
    for path in (
        installed,
        installed.with_name("numpy.libs"),
        *TFLITE_PYTHON.parents[1].glob("lib/*/site-packages/tfl*"),
    ):
        (packages / path.name).symlink_to(path)
    python = str(tmp_path / "bin/python")
    subprocess.run([python, "-I", "-c", "import tflite_runtime.interpreter"], check=True, timeout=WAIT_S)
    with (
        pytest.raises(EngineMissing, match=f"tflite-runtime needs NumPy 1, .* has {np.__version__}"),
        worker_of("tflite-runtime", tflite_bytes.add_model(), model_format="tflite", interpreter=python),
    ):
        pass


def test_tensorrt_without_its_library_says_what_is_missing() -> None:
    if importlib.util.find_spec("tensorrt") is not None:
        pytest.skip("tensorrt is installed here")
    with (
        pytest.raises(EngineMissing, match="can't import engine tensorrt: No module named 'tensorrt'"),
        worker_of("tensorrt", onnx_bytes.add_model(), model_format="onnx"),
    ):
        pass


def test_every_engine_is_in_the_table_of_documents() -> None:
    from shoal_worker.engines import ENGINES as known

    text = (ROOT / "docs/engines.md").read_text()
    assert [name for name in known if f"`{name}`" not in text] == []
