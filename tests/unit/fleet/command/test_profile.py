"""Does `shoal profile` tell right profiles from wrong ones, and show what they say?"""

import json
from pathlib import Path

import pytest
from shoal_fleet.command.cli import main
from shoal_fleet.command.profile import check_files

PROFILES = Path(__file__).resolve().parents[4] / "device_profiles"
SMALL = """\
name = "{name}"
board = "B"
architecture = "aarch64"
engines = ["litert"]
ciphers = ["aes-256-gcm"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "one.toml").write_text(SMALL.format(name="one") + 'memory_bytes = [536870912]\nsources = ["S"]\n')
    monkeypatch.setenv("SHOAL_PROFILES", str(tmp_path))
    return tmp_path


def test_shipped_profiles_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(map(str, PROFILES.glob("*.toml")))
    assert main(["profile", "check", *files]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{file}: right" for file in files]


def test_every_mistake_of_every_file_is_told() -> None:
    texts = {
        "a.toml": b"name = ",
        "b.toml": (SMALL.format(name="c") + "cores = 4\n").encode(),
        "d.toml": (SMALL.format(name="d") + 'compatible = ["x,y"]\n').encode(),
        "e.toml": (SMALL.format(name="e") + 'compatible = ["x,y"]\n').encode(),
    }
    found = {one.file: one.mistakes for one in check_files(texts)}
    assert "device profile" in found["a.toml"][0]
    assert [mistake.partition(":")[0] for mistake in found["b.toml"]] == ["sources", "name"]
    assert found["d.toml"] == ()
    assert found["e.toml"] == ("'x,y' is a sign of d as well",)


def test_check_fails_where_something_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.toml").write_text(SMALL.format(name="other"))
    files = [str(folder / "one.toml"), str(folder / "two.toml")]
    assert main(["profile", "check", "--json", *files]) == 1
    told = capsys.readouterr()
    assert [json.loads(line)["file"] for line in told.out.splitlines()] == files
    assert "1 of 2 device profiles have mistakes" in told.err


def test_list_and_show_say_what_is_in_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "list"]) == 0
    assert "0.5 GiB" in capsys.readouterr().out
    assert main(["profile", "show", "one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory_bytes"] == [536870912]
    assert main(["profile", "show", "one"]) == 0
    assert ["sources", "S"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_profile_that_is_not_there_is_named_with_those_that_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "show", "two"]) == 4
    assert "has one" in capsys.readouterr().err


def test_machine_without_profiles_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_PROFILES", str(tmp_path / "nowhere"))
    assert main(["profile", "list"]) == 2
    assert "nowhere" in capsys.readouterr().err
