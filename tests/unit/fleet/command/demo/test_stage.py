"""Does the demo begin in an empty folder of its own, and in no other?"""

from pathlib import Path

import pytest
from shoal_fleet.command.demo.stage import Stage
from shoal_fleet.command.errors import UsageError


def test_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    stage = Stage(tmp_path / "demo")
    with stage.cleared():
        (stage.fleet / "deep").mkdir(parents=True)
        (stage.folder / "file").touch()
        (stage.folder / "link").symlink_to(elsewhere)
    mark = [path.name for path in stage.folder.iterdir() if path.name not in ("fleet", "file", "link")]
    with stage.cleared():
        assert [path.name for path in stage.folder.iterdir()] == mark
    assert (elsewhere / "precious").exists()


def test_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(UsageError, match="holds something else"), Stage(tmp_path).cleared():
        pass
    assert (tmp_path / "precious").exists()


def test_second_demo_is_kept_out_of_the_first_ones_folder(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "demo")
    with stage.cleared():
        stage.fleet.mkdir()
        with pytest.raises(UsageError, match="a demo is at work"), Stage(tmp_path / "demo").cleared():
            pass
        assert stage.fleet.exists()


def test_empty_folder_will_do(tmp_path: Path) -> None:
    with Stage(tmp_path).cleared():
        assert len(list(tmp_path.iterdir())) == 1
