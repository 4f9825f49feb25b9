"""Do sounds appear whole, with the score that they were made from, and does the command say so?"""

import json
from pathlib import Path

import pytest
from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.__main__ import main
from shoal_converters.note_events.sounds import place_sounds
from shoal_converters.note_events.synthesis import compose_score, synthesise_wav


def test_each_sound_is_there_whole_when_it_is_named(tmp_path: Path) -> None:
    placed = []
    for path, sound in place_sounds(tmp_path / "in", count=3, seed=7, pace_s=0.0):
        placed.append(path.name)
        assert path.read_bytes() == synthesise_wav(compose_score(sound.seed))
        assert sorted(entry.name for entry in path.parent.iterdir()) == placed
    assert placed == ["sound-000007.wav", "sound-000008.wav", "sound-000009.wav"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BuildFailed, match=r"file/sound-000000\.wav"):
        next(place_sounds(tmp_path / "file", count=1, seed=0, pace_s=0.0))


def test_the_command_prints_a_json_line_per_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sounds", "--out", str(tmp_path), "--count", "2", "--seed", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["file"] for line in lines] == ["sound-000003.wav", "sound-000004.wav"]
    assert [line["seed"] for line in lines] == [3, 4]
    for line in lines:
        score = compose_score(line["seed"])
        assert [note["pitch"] for note in line["score"]["notes"]] == [note.pitch for note in score.notes]
        assert len(line["words"].split()) == len(score.notes)


def test_the_command_prints_words_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sounds", "--out", str(tmp_path), "--seed", "3"]) == 0
    assert capsys.readouterr().out.startswith("sound-000003.wav: ")


def test_what_cannot_be_done_ends_with_1_and_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert main(["sounds", "--out", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "arguments", [[], ["sing"], ["sounds"], ["sounds", "--out", "x", "--pace", "nan"], ["build"], ["fetch", "--x"]]
)
def test_wrong_arguments_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
