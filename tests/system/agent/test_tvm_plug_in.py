"""Does an engine of somebody else, installed as its own package, serve like the agent's own?"""

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.probe import probe_engine
from shoal_worker.errors import ModelRefused

from tests.onnx_bytes import external_weight_model
from tests.system.agent.engine_board import ROOT, SPREAD, WAIT_S, fetch_note_events, first_window, worker_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

COMPILING_S = 300.0


@pytest.fixture(scope="module")
def tvm_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the plug-in and what it declares, and nothing else of ours."""
    folder = tmp_path_factory.mktemp("tvm")
    venv.create(folder, symlinks=True, with_pip=False)
    python = str(folder / "bin/python")
    plug_in = ROOT / "agent/plugins/tvm"
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(plug_in)]
    subprocess.run([*wheel, "--wheel-dir", str(folder)], check=True, timeout=300)
    (built,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    constraints = str(plug_in / "constraints.txt")
    done = subprocess.run(
        [*install, "--constraint", constraints, str(built)], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"apache-tvm can't be installed here: {done.stderr.strip()[-300:]}")
    return python


def test_is_probed_like_the_rest(tvm_python: str) -> None:
    result = probe_engine(tvm_python, engine="tvm", model_format="onnx")
    assert result.is_usable, result.reason
    assert result.placement == ("llvm",)


def test_agrees_with_onnxruntime_on_a_trained_network(tvm_python: str) -> None:
    model, window = fetch_note_events()["onnx"], first_window()
    with worker_of("onnxruntime", model, model_format="onnx") as worker:
        name = worker.info.inputs[0].name
        reference = worker.run({name: window}, deadline_s=WAIT_S)
    with worker_of("tvm", model, model_format="onnx", interpreter=tvm_python, timeout_s=COMPILING_S) as worker:
        outputs = worker.run({name: window}, deadline_s=WAIT_S)
        pair = worker.run({name: np.concatenate([window, window])}, deadline_s=COMPILING_S)
    for name, expected in reference.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=SPREAD)
        np.testing.assert_allclose(pair[name], np.concatenate([expected, expected]), rtol=0, atol=SPREAD)


@pytest.mark.parametrize("model", [b"", b"no model", external_weight_model(location="etc/hostname")])
def test_what_is_no_whole_model_is_refused(model: bytes, tvm_python: str) -> None:
    with (
        pytest.raises(ModelRefused, match="tvm doesn't take the model"),
        worker_of("tvm", model, model_format="onnx", interpreter=tvm_python),
    ):
        pass


def test_the_agent_finds_it_without_its_library(tvm_python: str) -> None:
    packages = next(Path(tvm_python).parents[1].glob("lib/python*/site-packages"))
    program = (
        f"import sys; sys.path.append({str(packages)!r})\n"
        "from shoal_agent.engine_table import engines_for\n"
        "print(engines_for('onnx', interpreters={'tvm': '/x'})[-1], 'tvm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "tvm False\n"
