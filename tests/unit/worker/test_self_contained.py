"""Would the worker's folder run in an old interpreter with nothing of ours installed?"""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import shoal_worker

FOLDER = Path(shoal_worker.__file__).parent
SOURCES = sorted(FOLDER.rglob("*.py"))
ENGINE_LIBRARIES = {
    "litert_engine.py": {"ai_edge_litert"},
    "onnxruntime_engine.py": {"onnxruntime"},
    "openvino_engine.py": {"openvino"},
    "tensorrt_engine.py": {"tensorrt"},
    "tflite_runtime_engine.py": {"tflite_runtime"},
}


def imported_packages(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield node.module.split(".")[0]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_source_is_python_3_9(source: Path) -> None:
    ast.parse(source.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_source_imports_only_what_any_worker_has(source: Path) -> None:
    allowed = {"shoal_worker", "numpy"} | ENGINE_LIBRARIES.get(source.name, set())
    for package in imported_packages(ast.parse(source.read_text())):
        assert package in sys.stdlib_module_names or package in allowed, package


def test_what_other_processes_import_pulls_in_no_numpy() -> None:
    program = (
        "import sys, shoal_worker.channel, shoal_worker.process, shoal_worker.memory; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def with_python_3_9() -> dict[str, str] | None:
    """An environment in which python3.9 runs: this one, or pyenv with that version; None where there is none."""
    chosen = [{}, *({"PYENV_VERSION": version} for version in pyenv_versions() if version.startswith("3.9."))]
    for extra in chosen:
        environment = {**os.environ, **extra}
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(["python3.9", "--version"], capture_output=True, check=True, timeout=60, env=environment)
            return environment
    return None


def pyenv_versions() -> list[str]:
    try:
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()


def test_real_python_3_9_compiles_and_imports_it(tmp_path: Path) -> None:
    environment = with_python_3_9()
    if environment is None:
        pytest.skip("no python3.9 on PATH")
    program = """
import compileall, pathlib, sys
folder, cache = map(pathlib.Path, sys.argv[1:])
sys.pycache_prefix = str(cache)
sys.path.insert(0, str(folder.parent))
assert compileall.compile_dir(folder, quiet=1)
import shoal_worker.serve, shoal_worker.engines
"""
    subprocess.run(["python3.9", "-I", "-c", program, FOLDER, tmp_path], check=True, timeout=60, env=environment)
