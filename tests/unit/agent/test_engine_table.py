"""Does the agent know which engines may run a format here, without importing one?"""

import subprocess
import sys
from pathlib import Path

from shoal_agent import engine_table
from shoal_agent.engine_table import ELSEWHERE, ENGINES, LIBRARIES, candidates, engines_for, runnable_engines

EVERYWHERE = dict.fromkeys(LIBRARIES, "/somewhere/python")


def test_engines_with_an_interpreter_are_tried_in_the_order_of_the_table() -> None:
    assert engines_for("onnx", interpreters=EVERYWHERE) == ("onnxruntime", "openvino", "tensorrt")
    assert engines_for("tflite", interpreters=EVERYWHERE) == ("litert", "openvino", "tflite-runtime")
    assert runnable_engines(interpreters=EVERYWHERE) == ENGINES


def test_a_format_without_an_engine_here_is_not_runnable() -> None:
    folder = str(Path(engine_table.__file__).parent)
    program = (
        # The file alone, with nothing but the standard library.
        f"import sys; sys.path[:] = [entry for entry in sys.path if 'site-packages' not in entry] + [{folder!r}]\n"
        "from engine_table import *\n"
        "print(runnable_engines(interpreters={}), runnable_engines(interpreters={'litert': '/x'}))"
    )
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "{} {'tflite': ('litert',)}\n"


def test_looking_up_imports_no_engine_and_no_numpy() -> None:
    program = (
        "import sys; from shoal_agent.engine_table import *; runnable_engines(interpreters={})\n"
        "print(sorted({'numpy', *LIBRARIES.values()} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_core_ml_is_known_and_runs_elsewhere() -> None:
    assert "coreml" not in ENGINES
    assert "macOS" in ELSEWHERE["coreml"]


def test_a_plug_in_beside_the_agent_comes_after_the_engines_of_the_table(tmp_path: Path) -> None:
    described = tmp_path / "abacus-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    entries = "[shoal.engines]\nabacus.onnx = abacus_engine\nabacus.beads = abacus_engine\nopenvino.onnx = impostor\n"
    (described / "entry_points.txt").write_text(entries)
    sys.path.append(str(tmp_path))
    try:
        found = [(candidate.engine, candidate.model_format, candidate.module) for candidate in candidates()]
        interpreters = EVERYWHERE | {"abacus": "/somewhere/python"}
        assert found[-2:] == [("abacus", "beads", "abacus_engine"), ("abacus", "onnx", "abacus_engine")]
        assert engines_for("onnx", interpreters=interpreters) == ("onnxruntime", "openvino", "tensorrt", "abacus")
        assert engines_for("beads", interpreters={}) == ()  # its module isn't here, and nobody said where it is
    finally:
        sys.path.remove(str(tmp_path))
