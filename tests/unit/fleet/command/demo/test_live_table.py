"""What does the live table say of a board?"""

import msgspec
from shoal_fleet.command.demo.boards import BOARDS
from shoal_fleet.command.demo.live_table import Line, Told, describe
from shoal_fleet.command.views import Answer, Device, Pace, Reported, Update
from shoal_wire.messages import ReleaseReference, SlotReport

BOARD = BOARDS[0]
NOTES = ReleaseReference("notes", 2, "22" * 32)
FACES = ReleaseReference("faces", 1, "11" * 32)
PACE = Pace("d-1", 1.2, 100.0, 200.0)


def slot(reference: ReleaseReference, *, serves: bool = True) -> SlotReport:
    serving = reference if serves else None
    return SlotReport(release=reference.release, current=reference, previous=None, serving=serving, engine="litert")


def device(*slots: SlotReport, update: Update | None = None) -> Device:
    reported = Reported(at=1.0, slots=slots, update=update)
    return Device("d-1", BOARD.name, "x", "1", True, 0.0, None, None, reported)


def test_board_that_has_reported_nothing_has_a_line() -> None:
    assert describe(BOARD, None, answers=0, pace=None) == Line(BOARD.name)


def test_line_names_all_releases_that_serve_and_the_engine_that_was_reported() -> None:
    update = Update(FACES, "committed", "")
    line = describe(BOARD, device(slot(NOTES), slot(FACES), update=update), answers=7, pace=PACE)
    assert line == Line(BOARD.name, "litert", "notes 2, faces 1", "serving", 7, PACE)


def test_update_under_way_is_named_with_its_release_and_what_does_not_serve_is_not() -> None:
    line = describe(
        BOARD, device(slot(NOTES, serves=False), update=Update(NOTES, "fetching", "")), answers=0, pace=PACE
    )
    assert (line.engine, line.releases, line.state) == ("", "", "fetching 2")


def test_board_that_has_refused_a_release_serves_on() -> None:
    update = Update(msgspec.structs.replace(NOTES, version=4), "refused", "golden cases")
    line = describe(BOARD, device(slot(NOTES), update=update), answers=0, pace=PACE)
    assert (line.releases, line.state) == ("notes 2", "serving, refused 4")


def test_answers_are_counted_by_board_and_the_last_of_each_source_is_kept() -> None:
    told = Told()
    first = Answer(3, "d-1", "11" * 32, "sounds", "a", "C4")
    told.take([first, msgspec.structs.replace(first, id=4, source="photographs")])
    last = msgspec.structs.replace(first, id=9, words="D4")
    told.take([msgspec.structs.replace(first, id=8, device="d-2"), last])
    told.take([])
    assert (told.newest, told.counts) == (9, {"d-1": 3, "d-2": 1})
    assert told.last["d-1", "sounds"] == last
