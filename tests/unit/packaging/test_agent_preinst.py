"""Does the agent's package refuse to take the place of a newer one whose state it can't read, and nothing else?"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "packaging" / "debian" / "shoal-agent.preinst"
DEADLINE_S = 60.0
FILLED_IN = {"@python@": sys.executable, "@state_format@": "3", "@version@": "0.4.0"}


def run(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script as it is in the package of an agent that reads formats up to 3, for another folder of state."""
    text = SCRIPT.read_text().replace("/var/lib/shoal-agent/", f"{state}/")
    for name, value in FILLED_IN.items():
        text = text.replace(name, value)
    return subprocess.run(
        ["sh", "-c", text, "preinst", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@pytest.mark.parametrize("action", ["upgrade", "install"])
def test_refuses_state_of_a_newer_format_and_names_both(action: str, tmp_path: Path) -> None:
    (tmp_path / "device.json").write_text('{"format": 4, "device": "heron"}')

    done = run(tmp_path, action, "0.9.0")

    assert done.returncode == 1
    assert "version 0.9.0 has brought this board's state to format 4, and 0.4.0 reads up to" in done.stderr
    assert (tmp_path / "device.json").read_text() == '{"format": 4, "device": "heron"}'


@pytest.mark.parametrize("content", ['{"format": 3}', '{"format": 1}', "{}", "damaged", ""])
def test_goes_on_with_state_that_it_reads_or_that_is_no_ones(content: str, tmp_path: Path) -> None:
    (tmp_path / "device.json").write_text(content)
    done = run(tmp_path, "upgrade", "0.3.0")
    assert (done.returncode, done.stderr) == (0, "")


def test_goes_on_where_there_is_no_state(tmp_path: Path) -> None:
    assert run(tmp_path, "install").returncode == 0


def test_newer_package_that_comes_back_after_a_failure_is_let_in(tmp_path: Path) -> None:
    (tmp_path / "device.json").write_text('{"format": 4}')
    assert run(tmp_path, "abort-upgrade", "0.9.0").returncode == 0
