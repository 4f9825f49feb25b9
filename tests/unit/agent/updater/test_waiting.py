"""Is what an update waits for remembered, and does it go on when that is over?"""

from pathlib import Path

import pytest
from msgspec.structs import replace
from shoal_agent.files import DiskFiles
from shoal_agent.updater import waiting
from shoal_agent.updater.records import WAITING, Records
from shoal_agent.updater.waiting import LOOK_AGAIN_S, Waiting, is_over

from tests.unit.agent.updater.releases import journal

JOURNAL = journal(2, generation=3)
FOR_ROOM = Waiting(epoch=1, generation=3, reason="needs room", noted_at=1000.0, needed_bytes=500)
ASKED = replace(FOR_ROOM, reason="asked to wait", wait_s=120.0, needed_bytes=0)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path, files=DiskFiles())


@pytest.mark.parametrize(
    ("noted", "now", "free_bytes", "over"),
    [
        (FOR_ROOM, 1000.0, 499, False),
        (FOR_ROOM, 1000.0, 500, True),
        (FOR_ROOM, 1000.0 + LOOK_AGAIN_S - 1, 0, False),
        (FOR_ROOM, 1000.0 + LOOK_AGAIN_S, 0, True),
        (ASKED, 1119.0, 10**12, False),
        (ASKED, 1120.0, 0, True),
        (replace(ASKED, wait_s=1e9), 1000.0 + LOOK_AGAIN_S, 0, True),
        (ASKED, 999.0, 0, True),
        (replace(ASKED, generation=2), 1000.0, 0, True),
        (replace(ASKED, epoch=2), 1000.0, 0, True),
    ],
)
def test_wait_ends_by_time_room_generation_or_a_clock_set_back(
    noted: Waiting, now: float, free_bytes: int, over: bool
) -> None:
    assert is_over(noted, journal=JOURNAL, now=now, free_bytes=free_bytes) is over


def test_reason_is_remembered_over_starts_and_forgotten_when_it_is_over(records: Records) -> None:
    waiting.note(records, JOURNAL, reason="asked to wait", now=1000.0, wait_s=120.0)
    assert waiting.find_reason(records, JOURNAL, now=1060.0) == "asked to wait"
    assert waiting.find_reason(records, JOURNAL, now=1120.0) is None
    assert not (records.state / WAITING).exists()


def test_damaged_note_holds_nothing_up(records: Records) -> None:
    (records.state / WAITING).write_bytes(b"{")
    assert waiting.find_reason(records, JOURNAL, now=1060.0) is None
    assert not (records.state / WAITING).exists()


def test_update_that_never_waited_goes_on(records: Records) -> None:
    assert waiting.find_reason(records, JOURNAL, now=0.0) is None
