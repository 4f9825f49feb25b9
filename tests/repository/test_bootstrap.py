import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED_COMMANDS = ("bash", "cat", "dirname", "env", "flock", "mkdir")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Make a folder with the script, and a PATH on which there is neither apt-get nor sudo nor Python."""
    (tmp_path / "packaging").mkdir()
    shutil.copy(ROOT / "packaging" / "bootstrap.sh", tmp_path / "packaging")
    (tmp_path / "bin").mkdir()
    for command in NEEDED_COMMANDS:
        found = shutil.which(command)
        assert found is not None, f"{command} is not on PATH"
        (tmp_path / "bin" / command).symlink_to(found)
    return tmp_path


def bootstrap(machine: Path, *, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / "packaging" / "bootstrap.sh", "run"],
        env={"PATH": str(machine / "bin"), "PYTHON": python},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def interpreter(machine: Path, *, exit_1_if_told: str) -> str:
    """Make a Python that fails if the program on its command line holds a word."""
    path = machine / "bin" / "python3"
    path.write_text(f'#!/bin/sh\ncase "$2" in *{exit_1_if_told}*) exit 1 ;; esac\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_says_which_pythons_were_tried_if_none_is_new_enough(machine: Path) -> None:
    done = bootstrap(machine, python=interpreter(machine, exit_1_if_told="version_info"))

    assert (done.returncode, done.stdout) == (2, "")
    assert f"no Python 3.11 or newer found (tried: {machine}/bin/python3)" in done.stderr


def test_prints_the_line_to_type_if_it_may_not_install_what_is_missing(machine: Path) -> None:
    done = bootstrap(machine, python=interpreter(machine, exit_1_if_told="ensurepip"))

    assert (done.returncode, done.stdout) == (2, "")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert f"\n    sudo apt-get update && sudo apt-get install --yes {package}" in done.stderr
    assert not (machine / ".venv").exists()
