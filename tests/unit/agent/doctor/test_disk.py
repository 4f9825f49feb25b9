"""Is told when the disk is full, read-only, worn or no disk?"""

from dataclasses import replace
from pathlib import Path

import pytest
from shoal_agent.doctor.board import Board, kind_of, read_disk
from shoal_agent.doctor.disk import check_disk, check_wear
from shoal_agent.doctor.findings import Health

from tests.unit.agent.doctor.sound_board import DISK, put

MOUNTS = (
    "29 1 179:2 / / rw,noatime shared:1 - ext4 /dev/root rw\n"
    "35 29 0:31 / /run rw,nosuid - tmpfs tmpfs rw,size=10%\n"
    "garbage\n"
)
EMMC = "sys/devices/mmc/mmcblk0/device"


@pytest.mark.parametrize(
    ("changes", "expected", "word"),
    [
        ({}, Health.GOOD, "20.0 of 32.0 GB"),
        ({"free_bytes": 400_000_000}, Health.WARNING, "0.4 of"),
        ({"free_bytes": 10_000_000}, Health.BAD, "0.0 of"),
        ({"free_inodes": 30}, Health.WARNING, "3%"),
        ({"free_inodes": 0}, Health.BAD, "0%"),
        ({"total_inodes": 0, "free_inodes": 0}, Health.GOOD, "GB"),
        ({"is_read_only": True}, Health.BAD, "read-only"),
        ({"kind": "tmpfs"}, Health.BAD, "in memory"),
    ],
    ids=["room", "little room", "no room", "few inodes", "no inodes", "no count of inodes", "read-only", "memory"],
)
def test_room_is_judged(board: Board, changes: dict[str, object], expected: Health, word: str) -> None:
    disk = DISK._replace(**changes)  # type: ignore[arg-type]
    found = check_disk(replace(board, disk=disk))
    assert (found.health, word in found.words, bool(found.advice)) == (expected, True, expected is not Health.GOOD)


def test_disk_that_may_not_be_looked_at_is_unknown(board: Board) -> None:
    assert check_disk(replace(board, disk=None)).health is Health.UNKNOWN
    assert check_wear(replace(board, disk=None)).health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("life", "reserve", "expected", "word"),
    [
        ("0x01 0x02", "0x01", Health.GOOD, "10 to 20 %"),
        ("0x09 0x01", "0x01", Health.WARNING, "80 to 90 %"),
        ("0x01 0x01", "0x02", Health.WARNING, "0 to 10 %"),
        ("0x0b 0x01", "0x01", Health.BAD, "past the life"),
        ("0x01 0x01", "0x03", Health.BAD, "past the life"),
        ("0x00 0x00", "0x00", Health.GOOD, "no errors"),
    ],
    ids=["young", "old", "reserve used", "worn", "reserve gone", "tells nothing"],
)
def test_flash_is_judged_by_what_it_tells(board: Board, life: str, reserve: str, expected: Health, word: str) -> None:
    put(board, f"{EMMC}/type", "MMC\n")
    put(board, f"{EMMC}/life_time", f"{life}\n")
    put(board, f"{EMMC}/pre_eol_info", f"{reserve}\n")
    found = check_wear(board)
    assert (found.health, word in found.words) == (expected, True)


def test_sd_card_tells_nothing_of_its_wear(board: Board) -> None:
    (board.system / "fs/ext4/mmcblk0p2/errors_count").unlink()
    put(board, f"{EMMC}/type", "SD\n")
    found = check_wear(board)
    assert (found.health, "SD card" in found.words) == (Health.UNKNOWN, True)


def test_errors_of_the_file_system_are_bad(board: Board) -> None:
    put(board, "sys/fs/ext4/mmcblk0p2/errors_count", "3\n")
    found = check_wear(board)
    assert (found.health, "3 errors" in found.words) == (Health.BAD, True)


def test_file_system_without_a_disk_of_its_own_is_unknown(board: Board) -> None:
    assert check_wear(replace(board, disk=DISK._replace(device="0:31"))).health is Health.UNKNOWN


def test_kind_of_a_file_system_is_read_from_its_mount() -> None:
    assert [kind_of(device, mounts=MOUNTS) for device in ("179:2", "0:31", "8:1")] == ["ext4", "tmpfs", ""]


def test_folder_that_is_not_there_yet_lies_on_the_disk_of_the_one_above(tmp_path: Path) -> None:
    disk = read_disk(tmp_path / "not" / "there")
    assert disk is not None and disk.total_bytes > disk.free_bytes > 0
    assert not disk.is_read_only
