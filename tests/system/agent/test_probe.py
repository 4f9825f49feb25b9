"""Does the probe tell an engine that works from one that doesn't, and say why?"""

from __future__ import annotations

import importlib.util
import sys
import venv
from pathlib import Path

import pytest
from shoal_agent.front.probe import probe_all, probe_device, probe_engine
from shoal_agent.front.worker import WorkerOptions

from tests.onnx_bytes import add_model
from tests.system.agent.engine_board import ENGINES, interpreter_of, interpreters, worker_of

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(("engine", "model_format"), [*ENGINES, ("openvino", "openvino")])
def test_an_installed_engine_is_usable(engine: str, model_format: str) -> None:
    result = probe_engine(interpreter_of(engine), engine=engine, model_format=model_format)
    assert result.is_usable, result.reason
    assert result.reason == ""
    assert result.version[0].isdigit()
    assert result.placement and set(result.placement) <= set(result.devices)
    assert result.load_ms > 0


def test_all_engines_are_probed_and_none_stops_the_others() -> None:
    results = {(result.engine, result.model_format): result for result in probe_all(interpreters(), own=sys.executable)}
    assert results["onnxruntime", "onnx"].is_usable
    assert results["litert", "tflite"].is_usable
    if importlib.util.find_spec("tensorrt") is None:
        assert "can't import engine tensorrt" in results["tensorrt", "onnx"].reason


@pytest.mark.parametrize(
    ("interpreter", "reason"),
    [
        ("/nowhere/python", "interpreter /nowhere/python can't be started: No such file or directory"),
        ("/bin/false", "ended with exit code 1"),
    ],
)
def test_an_interpreter_that_does_not_work_is_told(interpreter: str, reason: str) -> None:
    result = probe_engine(interpreter, engine="onnxruntime", model_format="onnx")
    assert not result.is_usable
    assert reason in result.reason


def test_a_device_that_is_not_there_is_told() -> None:
    options = WorkerOptions(threads=1, device="NPU")
    result = probe_engine(sys.executable, engine="onnxruntime", model_format="onnx", options=options)
    assert "found 'NPU'" in result.reason


def test_an_engine_that_runs_on_another_device_than_was_asked_for_is_not_usable(tmp_path: Path) -> None:
    interpreter = plug_in(tmp_path, RIGHT_ENGINE)
    found = probe_engine(interpreter, engine="abacus", model_format="onnx")
    assert (found.is_usable, found.placement, found.other_devices) == (True, ("beads",), ("stones", "sand"))
    assert probe_device(found, "stones").placement == ("stones",)
    assert probe_device(found, "sand").reason == "engine abacus was asked for sand and runs on beads"


def test_an_engine_that_hangs_ends_at_the_time_limit(tmp_path: Path) -> None:
    result = probe_engine(
        plug_in(tmp_path, "import time; time.sleep(1000)"), engine="abacus", model_format="onnx", timeout_s=3.0
    )
    assert "didn't answer in time" in result.reason


def test_an_engine_that_dies_is_told_with_the_signal(tmp_path: Path) -> None:
    result = probe_engine(plug_in(tmp_path, "import os; os.kill(os.getpid(), 4)"), engine="abacus", model_format="onnx")
    assert "killed by signal 4 (Illegal instruction)" in result.reason


def test_an_engine_that_answers_wrongly_is_not_usable(tmp_path: Path) -> None:
    result = probe_engine(plug_in(tmp_path, WRONG_ENGINE), engine="abacus", model_format="onnx")
    assert not result.is_usable
    assert result.reason == "expected the outputs [[[11.0, 22.0, 33.0]]], found [[[0.0, 0.0, 0.0]]]"
    assert result.version == "1.0"


def test_a_plug_in_is_found_by_its_entry_point_and_its_plan_comes_back(tmp_path: Path) -> None:
    interpreter = plug_in(tmp_path, WRONG_ENGINE)
    with worker_of("abacus", add_model(), model_format="onnx", interpreter=interpreter) as worker:
        assert worker.info.engine == "abacus"
        assert worker.plan == b"a plan"


def test_a_plug_in_is_found_for_its_own_formats_only(tmp_path: Path) -> None:
    result = probe_engine(plug_in(tmp_path, WRONG_ENGINE), engine="abacus", model_format="tflite")
    assert "or a plug-in for format tflite" in result.reason


WRONG_ENGINE = """
import numpy as np
from shoal_worker.messages import TensorSpec

FORMATS = {"onnx": 1}

class Abacus:
    version, placement, devices, plan = "1.0", ("beads",), ("beads",), b"a plan"
    inputs = (TensorSpec("left", "float32", (1, 3)), TensorSpec("right", "float32", (1, 3)))
    outputs = (TensorSpec("sum", "float32", (1, 3)),)

    def prepare(self, feeds):
        return self

    def run(self):
        return {"sum": np.zeros((1, 3), np.float32)}

    def cancel(self):
        pass

def load(request, *, files):
    return Abacus()
"""

RIGHT_ENGINE = (
    WRONG_ENGINE
    + """
def load(request, *, files):
    engine = Abacus()
    engine.devices = ("beads", "stones", "sand")
    engine.placement = ("stones",) if request.device == "stones" else ("beads",)
    engine.run = lambda: {"sum": np.array([[11.0, 22.0, 33.0]], np.float32)}
    return engine
"""
)


def plug_in(folder: Path, source: str) -> str:
    """An interpreter with NumPy and a distribution that brings the engine `abacus` for ONNX; the module is `source`."""
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    numpy = importlib.util.find_spec("numpy")
    assert numpy is not None and numpy.origin is not None
    installed = Path(numpy.origin).parent
    for path in (installed, installed.with_name("numpy.libs")):
        if path.exists():
            (packages / path.name).symlink_to(path)
    described = packages / "abacus-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[shoal.engines]\nabacus.onnx = abacus\n")
    (packages / "abacus.py").write_text(source)
    return str(folder / "bin/python")
