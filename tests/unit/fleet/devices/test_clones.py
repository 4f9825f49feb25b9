"""Are two boards with one device's keys told from all that a single board may do?"""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.devices.clones import MOST_STREAMS, TURNS_TO_HOLD, WINDOW_S, Lineage, hear, is_cloned


class Report(NamedTuple):
    """What counts of a report."""

    stream: str
    counter: int


def listen(reports: list[Report], *, lineage: Lineage = Lineage(), step_s: float = 1.0) -> tuple[Lineage, float]:
    """The lineage after reports that came one every `step_s`, and when that was."""
    now = 0.0
    for report in reports:
        now += step_s
        lineage = hear(lineage, stream=report.stream, counter=report.counter, now=now)
    return lineage, now


def cloned(reports: list[Report], *, step_s: float = 1.0) -> bool:
    lineage, now = listen(reports, step_s=step_s)
    return is_cloned(lineage, now=now)


def starts(lengths: list[int], *, first: int = 1) -> list[Report]:
    """All reports of one board whose daemon was started once for each length, in order."""
    reports, counter = [], first
    for number, length in enumerate(lengths):
        for _ in range(length):
            reports.append(Report(f"start {number}", counter))
            counter += 1
    return reports


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=MOST_STREAMS), again=st.data())
def test_one_board_is_never_taken_for_two_though_reports_come_again(lengths: list[int], again: st.DataObject) -> None:
    reports = starts(lengths)
    for at in range(len(reports), 0, -1):
        reports.insert(at, again.draw(st.sampled_from(reports[:at])))
    assert not cloned(reports)
    assert not cloned(reports + again.draw(st.permutations(reports))), "all of it again, in any order"


@given(lengths=st.lists(st.integers(1, 4), min_size=2, max_size=6), late=st.data())
def test_a_report_that_was_overtaken_by_a_later_start_is_no_turn(lengths: list[int], late: st.DataObject) -> None:
    reports = starts(lengths)
    held_back = late.draw(st.sampled_from(reports))
    others = [report for report in reports if report != held_back]
    at = late.draw(st.integers(0, len(others)))
    others.insert(at, held_back)
    assert len(listen(others)[0].turns) <= 2
    assert not cloned(others)


@given(before=st.integers(2, 30), back=st.integers(1, 29), after=st.integers(1, 30), is_late=st.booleans())
def test_a_restored_state_folder_is_no_clone(before: int, back: int, after: int, is_late: bool) -> None:
    """The daemon ended, the folder of an earlier day was put in its place, another daemon goes on from there; one
    report of the first may still have been under way."""
    first = [Report("first", counter) for counter in range(1, before + 1)]
    begin = max(1, before - back)
    second = [Report("restored", counter) for counter in range(begin, begin + after)]
    late = [Report("first", before + 1)] if is_late else []
    reports = first + second[:1] + late + second[1:]
    assert not cloned(reports)
    assert listen(reports)[0].went_back == 1


@given(
    shared=st.integers(0, 50),
    older=st.integers(0, 50),
    turns=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=3, max_size=6),
)
def test_two_boards_that_speak_in_turn_are_found_wherever_the_copy_was_made(
    shared: int, older: int, turns: list[tuple[int, int]]
) -> None:
    original, copy = 100 + shared, 100 + shared - older
    reports = []
    for mine, others in turns:
        for _ in range(mine):
            original += 1
            reports.append(Report("original", original))
        for _ in range(others):
            copy += 1
            reports.append(Report("copy", copy))
    lineage, now = listen(starts([5]) + reports)
    assert is_cloned(lineage, now=now)


def test_it_takes_so_many_turns_within_the_window() -> None:
    pair = [Report("a", 10), Report("b", 10)]
    turns = [Report("a", 11), Report("b", 11), Report("a", 12), Report("b", 12)]
    assert len(turns) == TURNS_TO_HOLD
    assert not cloned(pair + turns[:-1])
    assert cloned(pair + turns)
    assert not cloned(pair + turns, step_s=WINDOW_S / 3)


def test_boards_that_are_never_on_together_are_counted_and_not_held() -> None:
    lineage, now = listen([Report("a", 100), Report("b", 90), Report("c", 101), Report("d", 91), Report("e", 102)])
    assert not is_cloned(lineage, now=now)
    assert lineage.went_back == 2


def test_nothing_new_leaves_the_lineage_as_it_is() -> None:
    lineage, _ = listen(starts([3, 2]))
    assert hear(lineage, stream="start 1", counter=5, now=9.0) is lineage
    assert hear(lineage, stream="start 0", counter=1, now=9.0) is lineage


@pytest.mark.parametrize("daemon_starts", [MOST_STREAMS, 3 * MOST_STREAMS])
def test_what_is_remembered_is_bounded(daemon_starts: int) -> None:
    lineage, now = listen(starts([1] * daemon_starts))
    assert len(lineage.streams) == MOST_STREAMS
    assert not is_cloned(lineage, now=now)
