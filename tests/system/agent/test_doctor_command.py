"""Does `shoal-agent doctor` look at a whole board, say nothing secret, and end with a code that a script can use?"""

import json
import subprocess
import sys
from pathlib import Path

from shoal_agent.doctor.examination import CHECKS
from shoal_agent.engine_table import LIBRARIES

from tests.system.agent.board import Board

PROGRAM = Path(sys.executable).with_name("shoal-agent")


def doctor(state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), "doctor", "--state", str(state), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_whole_board_is_looked_at(board: Board) -> None:
    board.state.chmod(0o700)
    done = doctor(board.state, "--json")
    health = {line["check"]: line["health"] for line in json.loads(done.stdout)}
    assert set(CHECKS) | {"engines", *(f"engine {name}" for name in LIBRARIES)} <= set(health)
    assert health["certificate"] == health["network, broker"] == "good"
    assert health["network, devices' listener"] == "bad", "nobody listens there"
    assert done.returncode == 1
    for path in (board.state / "keys").iterdir():
        assert path.read_text().splitlines()[1] not in done.stdout + done.stderr


def test_quick_look_at_a_sound_board_ends_well(board: Board) -> None:
    board.state.chmod(0o700)
    done = doctor(board.state, "--quick")
    assert (done.returncode, "bad " in done.stdout) == (0, False), done.stdout
    assert "engine" not in done.stdout and "network" not in done.stdout


def test_mistake_in_the_configuration_is_a_finding_and_no_end(board: Board) -> None:
    (board.state / "agent.toml").write_text("threds = 2\n")
    done = doctor(board.state, "--quick")
    assert done.returncode == 1
    assert "unknown key 'threds'" in done.stdout


def test_board_that_was_never_enrolled_is_no_failure(tmp_path: Path) -> None:
    assert doctor(tmp_path / "nowhere", "--quick").returncode == 0
