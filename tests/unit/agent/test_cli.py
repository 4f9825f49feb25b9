"""What does the command line say to somebody who uses it for the first time?"""

import os
from pathlib import Path

import pytest
from shoal_agent.cli import FAILED, NOT_ENROLLED, WRONG_USE, main


@pytest.mark.parametrize("command", ["enrol", "run", "tune", "status"])
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


@pytest.fixture
def folder_of_another(tmp_path: Path) -> Path:
    """A folder that isn't this user's: root, who may read and write it all the same, is refused too."""
    if os.geteuid():
        return Path("/")
    os.chown(tmp_path, 54321, -1)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--release-folder", "release"]], ids=["release that serves", "release folder"])
def test_tune_is_refused_to_another_user_than_the_daemons_and_says_what_to_type(
    folder_of_another: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "note-events", "--state", str(folder_of_another), *more]) == FAILED
    owner = "'#54321'" if not os.geteuid() else "root"
    told = capsys.readouterr().err
    assert f"`sudo -u {owner} shoal-agent tune note-events --state {folder_of_another} …`" in told
    assert ("another --state" in told) == bool(more)
    assert os.geteuid() or not list(folder_of_another.iterdir())


def test_tune_without_a_state_folder_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "absent"
    assert main(["tune", "note-events", "--state", str(state)]) == NOT_ENROLLED
    assert main(["tune", "note-events", "--state", str(state), "--release-folder", str(tmp_path)]) == FAILED
    assert "release.json" in capsys.readouterr().err
    assert not state.exists()
