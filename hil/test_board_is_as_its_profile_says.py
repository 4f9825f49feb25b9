"""Is the board what its device profile promises?"""

from fnmatch import fnmatch

import pytest
from shoal_wire.device_profile import DeviceProfile

from hil.board import Board

# Firmware, GPU and kernel keep some of the memory for themselves.
SMALLEST_VISIBLE_PART = 0.75


def test_architecture_is_that_of_the_profile(board: Board, profile: DeviceProfile) -> None:
    assert board.run_probe("machine")["architecture"] == profile.architecture.value


def test_number_of_cores_is_that_of_the_profile(board: Board, profile: DeviceProfile) -> None:
    if profile.cores is None:
        pytest.skip(f"{profile.name} says nothing about cores")
    assert board.run_probe("machine")["cores"] == profile.cores


def test_memory_is_a_size_that_the_profile_lists(board: Board, profile: DeviceProfile) -> None:
    if not profile.memory_bytes:
        pytest.skip(f"{profile.name} says nothing about memory")
    visible = board.run_probe("machine")["memory_bytes"]

    assert any(SMALLEST_VISIBLE_PART * size <= visible <= size for size in profile.memory_bytes), visible


def test_aes_comes_first_where_the_processor_has_instructions_for_it(board: Board, profile: DeviceProfile) -> None:
    if "aes" not in (*profile.instructions, *profile.lacks_instructions) and not profile.name.endswith("x86-64"):
        pytest.skip(f"{profile.name} doesn't know whether such a board has them")
    prefers_aes = profile.ciphers[0] == "aes-256-gcm"

    assert board.run_probe("machine")["has_aes_instructions"] == prefers_aes


def test_board_shows_a_sign_of_its_profile(board: Board, profile: DeviceProfile) -> None:
    if not profile.compatible and not profile.processor_names:
        pytest.skip(f"no board is known by {profile.name}")
    signs = board.run_probe("signs")
    is_named = any(signs["processor"].startswith(name) for name in profile.processor_names)

    assert is_named or set(profile.compatible) & set(signs["compatible"]), signs["processor"] or signs["compatible"]


def test_processor_has_the_instructions_of_the_profile_and_lacks_the_others(
    board: Board, profile: DeviceProfile
) -> None:
    if not profile.instructions and not profile.lacks_instructions:
        pytest.skip(f"{profile.name} says nothing about instructions")
    found = set(board.run_probe("signs")["instructions"])

    assert set(profile.instructions) - found == set()
    assert set(profile.lacks_instructions) & found == set()


def test_sensors_are_where_the_profile_says(board: Board, profile: DeviceProfile) -> None:
    if not profile.power_sensors:
        pytest.skip(f"{profile.name} names no sensors of power")
    files = board.run_probe("signs")["files"]

    missing = [one.path for one in profile.power_sensors if not any(fnmatch(file, one.path) for file in files)]
    assert missing == []


def test_board_is_below_the_limits_of_its_profile(board: Board, profile: DeviceProfile) -> None:
    if profile.thermal_limits is None:
        pytest.skip(f"{profile.name} names no limits of temperature")
    celsius = board.run_probe("signs")["celsius"]

    assert celsius and max(celsius) < profile.thermal_limits.limit_celsius, celsius
