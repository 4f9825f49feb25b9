"""Are device profiles found where they may lie, and does a bad file hide no good one?"""

from pathlib import Path

import pytest
from shoal_agent.profiles import SOURCE_TREE, find_folder, find_profile, load_profiles

from tests.shipped_profiles import BOARDS_DOCUMENT, ENVIRONMENT

SMALL = 'name = "{name}"\nboard = "B"\narchitecture = "aarch64"\nengines = ["litert"]\nciphers = ["aes-256-gcm"]\n'


def test_source_tree_has_them_all() -> None:
    if not SOURCE_TREE.is_dir():
        pytest.skip("the agent isn't run from its source tree here")
    found = load_profiles({})
    assert (found.folder, found.faults) == (SOURCE_TREE, ())
    assert {profile.name for profile in found.known} == {path.stem for path in SOURCE_TREE.glob("*.toml")}


def test_folder_that_the_variable_names_goes_first_and_alone(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(SMALL.format(name="own"))
    environment = {"SHOAL_PROFILES": str(tmp_path)}
    assert [profile.name for profile in load_profiles(environment).known] == ["own"]
    assert find_profile("raspberry-pi-5", environment=environment) is None
    assert find_folder({"SHOAL_PROFILES": str(tmp_path / "nowhere")}) is None
    assert load_profiles({"SHOAL_PROFILES": str(tmp_path / "nowhere")}).known == ()


def test_bad_file_is_told_and_the_others_count(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SMALL.format(name="a"))
    (tmp_path / "b.toml").write_text("name = ")
    (tmp_path / "c.toml").mkdir()
    found = load_profiles({"SHOAL_PROFILES": str(tmp_path)})
    assert [profile.name for profile in found.known] == ["a"]
    assert [str(tmp_path / name) in fault for name, fault in zip(("b.toml", "c.toml"), found.faults, strict=True)] == [
        True,
        True,
    ]


def test_name_that_an_earlier_agent_wrote_is_known() -> None:
    found = find_profile("generic-x86_64", environment=ENVIRONMENT)
    assert found is not None and found.name == "generic-x86-64"


def test_every_profile_has_a_line_in_the_documents() -> None:
    text = BOARDS_DOCUMENT.read_text()
    assert [profile.name for profile in load_profiles(ENVIRONMENT).known if f"| `{profile.name}` |" not in text] == []
