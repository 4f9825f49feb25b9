"""What does the command line say to somebody who uses it for the first time?"""

from pathlib import Path

import pytest
from shoal_agent.cli import NOT_ENROLLED, WRONG_USE, main


@pytest.mark.parametrize("command", ["enrol", "run", "status"])
def test_help_has_an_example_and_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"example:\n  shoal-agent {command}" in printed
    assert "75  the fleet couldn't be reached" in printed


def test_a_board_that_is_not_enrolled_says_how_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "run"):
        assert main([command, "--state", str(tmp_path)]) == NOT_ENROLLED
        assert "shoal-agent enrol TOKEN" in capsys.readouterr().err


def test_a_wrong_configuration_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.toml").write_text("colour = 1")
    assert main(["run", "--state", str(tmp_path)]) == WRONG_USE
    assert "'colour'" in capsys.readouterr().err
