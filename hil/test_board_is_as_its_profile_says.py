"""Is the board what its device profile promises?"""

import pytest
from shoal_wire.device_profile import DeviceProfile

from hil.board import LocalBoard

# Firmware, GPU and kernel keep some of the memory for themselves.
SMALLEST_VISIBLE_PART = 0.75


def test_architecture_is_that_of_the_profile(board: LocalBoard, profile: DeviceProfile) -> None:
    assert board.run_probe("machine")["architecture"] == profile.architecture.value


def test_number_of_cores_is_that_of_the_profile(board: LocalBoard, profile: DeviceProfile) -> None:
    if profile.cores is None:
        pytest.skip(f"{profile.name} says nothing about cores")
    assert board.run_probe("machine")["cores"] == profile.cores


def test_memory_is_a_size_that_the_profile_lists(board: LocalBoard, profile: DeviceProfile) -> None:
    if not profile.memory_bytes:
        pytest.skip(f"{profile.name} says nothing about memory")
    visible = board.run_probe("machine")["memory_bytes"]

    assert any(SMALLEST_VISIBLE_PART * size <= visible <= size for size in profile.memory_bytes), visible


def test_aes_comes_first_where_the_processor_has_instructions_for_it(board: LocalBoard, profile: DeviceProfile) -> None:
    prefers_aes = profile.ciphers[0] == "aes-256-gcm"

    assert board.run_probe("machine")["has_aes_instructions"] == prefers_aes
