"""Is a board told by what its kernel and firmware show, and by nothing else?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.board_detection import Traits, detect, read_traits
from shoal_agent.profiles import load_profiles

from tests.shipped_profiles import ENVIRONMENT
from tests.unit.agent.recorded_boards import BOARDS, JETSONS, RASPBERRY_PIS, RecordedBoard, write_board

PROFILES = load_profiles(ENVIRONMENT).known


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_recorded_board_is_told(board: RecordedBoard, tmp_path: Path) -> None:
    found = detect(read_traits(write_board(board, tmp_path), machine=board.machine), PROFILES)
    assert found.profile == board.profile
    assert board.reason in found.reason
    assert found.reason.isprintable()


@pytest.mark.parametrize("board", [*RASPBERRY_PIS.values(), *JETSONS.values()], ids=[*RASPBERRY_PIS, *JETSONS])
def test_profile_names_instructions_that_such_a_board_prints_and_none_that_it_does_not(
    board: RecordedBoard, tmp_path: Path
) -> None:
    traits = read_traits(write_board(board, tmp_path), machine=board.machine)
    profile = next(profile for profile in PROFILES if profile.name == board.profile)
    assert set(profile.instructions) <= traits.instructions
    assert not set(profile.lacks_instructions) & traits.instructions


def test_board_without_profiles_is_generic_and_says_so() -> None:
    found = detect(Traits("aarch64", compatible=("raspberrypi,5-model-b",)), ())
    assert found == ("generic-aarch64", "there are no device profiles on this board")


def test_the_first_name_of_a_device_tree_that_a_profile_claims_counts() -> None:
    names = ("somebody,carrier", "nvidia,p3767-0001", "raspberrypi,5-model-b")
    assert detect(Traits("aarch64", compatible=names), PROFILES).profile == "jetson-orin-nx"


@given(raw=st.binary(max_size=300), machine=st.sampled_from(["aarch64", "x86_64", "armv7l"]))
def test_whatever_firmware_says_a_board_has_a_profile_name(
    raw: bytes, machine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = ("proc/device-tree/model", "proc/device-tree/compatible", "proc/cpuinfo", "sys/class/dmi/id/sys_vendor")
    board = RecordedBoard(machine, dict.fromkeys(names, raw), "", "")
    found = detect(read_traits(write_board(board, tmp_path_factory.mktemp("board")), machine=machine), PROFILES)
    assert found.profile.startswith("generic-")
    assert found.reason.isprintable()
