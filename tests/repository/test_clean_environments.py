"""Does each member work with nothing installed but what it declares?

Each member is built into a wheel and installed into an environment of its own. All its modules are imported there
before any test tool is installed, which would bring packages of its own along; then its unit tests run there.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER_OF = {"shoal-wire": "wire", "shoal-agent": "agent", "shoal-fleet": "fleet", "shoal-converters": "converters"}
TEST_TOOLS = ("pytest", "pytest-timeout", "hypothesis")
OF_EXTRAS = {"shoal-converters": ("onnx", "nncf", "ai-edge-quantizer")}
"""What a member's unit tests need of its extras, by member."""

# Modules named __main__ start a program, and Alembic's scripts run inside Alembic only. Conversions, and the example
# that writes a network, import what an extra brings: the workbench looks for that first
# (`shoal_converters.paths.process`). So does the agent before it uses a key in a token (`shoal_agent.keys`).
IMPORT_EVERYTHING = """
import importlib, pkgutil, sys

def import_all(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if module.name.rpartition(".")[2] not in {"__main__", "migrations", "paths", "digits", "pkcs11_key"}:
            imported = importlib.import_module(module.name)
            if module.ispkg:
                import_all(imported)

import_all(importlib.import_module(sys.argv[1]))
"""


def run(*command: str | Path, timeout_s: float = 300) -> None:
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}"


def workspace_dependencies(distribution: str) -> set[str]:
    """Return the members that a member needs, itself included."""
    project = tomllib.loads((ROOT / FOLDER_OF[distribution] / "pyproject.toml").read_text())["project"]
    needed = {distribution}
    for requirement in project["dependencies"]:
        for other in FOLDER_OF:
            if requirement.startswith(other):
                needed |= workspace_dependencies(other)
    return needed


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, *(f"./{member}" for member in FOLDER_OF.values()))
    return {name: next(folder.glob(f"{name.replace('-', '_')}-*.whl")) for name in FOLDER_OF}


@pytest.mark.parametrize(
    ("distribution", "package"),
    [
        ("shoal-wire", "shoal_wire"),
        ("shoal-agent", "shoal_agent"),
        pytest.param("shoal-fleet", "shoal_fleet", marks=pytest.mark.long),
        pytest.param("shoal-converters", "shoal_converters", marks=pytest.mark.long),
    ],
)
def test_member_works_with_its_declared_dependencies_only(
    distribution: str, package: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "-c", "constraints.txt")

    run(*install, *(wheels[name] for name in sorted(workspace_dependencies(distribution))))
    run(python, "-I", "-c", IMPORT_EVERYTHING, package)

    run(*install, *TEST_TOOLS, *OF_EXTRAS.get(distribution, ()))
    tests = ROOT / "tests" / "unit" / FOLDER_OF[distribution]
    run(python, "-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider", tests)
