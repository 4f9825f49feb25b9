"""Does every item get its answer while releases take each other's place, and is memory made before it is taken?"""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting
from shoal_agent.slots import HeldRelease
from shoal_converters.note_events.evaluation import play

from tests.system.agent.front_board import DEVICE, Board, send

SLOT = "note-events"
MORE_MEMORY_THAN_ANY_BOARD = 1 << 49
RESOURCE_PRESERVING = messages.Configure(
    device=DEVICE, threads=1, slots={SLOT: SlotSetting(swap="resource-preserving")}
)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    yield board
    board.close()


def swap_under_load(board: Board, releases: list[HeldRelease], *, swaps: int) -> None:
    """Items all the time, and a swap that loads anew as soon as the last one is through."""
    sounds = [play(seed).wav for seed in range(7_000, 7_008)]
    names = itertools.count()
    ids: set[str] = set()

    def place_some() -> None:
        while len(list(board.inbox.iterdir())) < 5:
            number = next(names)
            ids.add(board.place(f"s{number:06d}.wav", sounds[number % len(sounds)]))

    channel, _ = board.start_front()
    place_some()
    for number in range(swaps):
        release = releases[number % len(releases)]
        served = board.load(channel, release)
        assert isinstance(served, messages.Serving) and served.reference == release.reference
        send(channel, messages.Unload(slot=SLOT, keep=(release.reference.manifest_sha256,)))
        place_some()
        board.follow_answers(channel, len(board.answers) + 1)
        place_some()
    board.follow_answers(channel, len(ids))
    assert sorted(answer.answer_id for answer in board.answers) == sorted(ids)
    assert [answer for answer in board.answers if "error" in answer.answer] == []
    assert len({answer.reference for answer in board.answers}) == len(releases)
    assert board.deaths == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("configuration", [None, RESOURCE_PRESERVING], ids=["beside", "instead"])
@pytest.mark.parametrize("swaps", [10, pytest.param(100, marks=(pytest.mark.long, pytest.mark.timeout(1200)))])
def test_no_item_is_lost_in_swaps_under_load(
    board: Board, release_folders: Path, swaps: int, configuration: messages.Configure | None
) -> None:
    board.configuration = configuration or board.configuration
    releases = [board.hold(release_folders / f"release-{version}") for version in (1, 2)]
    swap_under_load(board, releases, swaps=swaps)


def test_release_that_fails_to_load_in_the_gap_gives_the_place_back(board: Board, release_folders: Path) -> None:
    board.configuration = RESOURCE_PRESERVING
    good = board.hold(release_folders / "release-1")
    keys = dict(board.keys)
    without_keys = board.hold(release_folders / "release-2")
    channel, _ = board.start_front()
    board.load(channel, good)
    send(channel, messages.Load(slot=SLOT, held=without_keys, store=str(board.store), content_keys=keys))
    heard: list[object] = []

    def is_failure(message: object) -> bool:
        heard.append(message)
        return isinstance(message, messages.LoadFailed)

    board.follow(channel, until=is_failure)
    kinds = [type(message) for message in heard if not isinstance(message, messages.Health)]
    assert kinds == [messages.Stopped, messages.Serving, messages.LoadFailed]
    board.place("s.wav", play(7_000).wav)
    (answer,) = board.follow_answers(channel, 1)
    assert answer.reference == good.reference and "notes" in answer.answer


def test_release_that_does_not_fit_is_refused_with_both_numbers(board: Board, release_folders: Path) -> None:
    good = board.hold(release_folders / "release-1")
    huge = board.hold(release_folders / "release-2", memory_bytes=MORE_MEMORY_THAN_ANY_BOARD)
    channel, _ = board.start_front()
    board.load(channel, good)
    failed = board.load(channel, huge)
    assert isinstance(failed, messages.LoadFailed)
    assert "562949953 MB (measured)" in failed.reason and "MB are available on the board" in failed.reason
    board.place("s.wav", play(7_000).wav)
    (answer,) = board.follow_answers(channel, 1)
    assert answer.reference == good.reference


def test_candidate_that_does_not_fit_beside_is_not_checked(board: Board, release_folders: Path) -> None:
    huge = board.hold(release_folders / "release-1", memory_bytes=MORE_MEMORY_THAN_ANY_BOARD)
    channel, _ = board.start_front("--check")
    send(channel, messages.Check(held=huge, store=str(board.store), content_keys=board.keys))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert not verdict.passed and "562949953 MB" in verdict.reason and "are available" in verdict.reason


def test_item_quarantined_by_an_earlier_front_is_not_run(board: Board, release_folders: Path) -> None:
    sound = play(7_000).wav
    suspects = {hashlib.sha256(sound).hexdigest(): 2}
    board.configuration = messages.Configure(device=DEVICE, threads=1, suspects=suspects)
    channel, _ = board.start_front()
    board.load(channel, board.hold(release_folders / "release-1"))
    board.place("a.wav", sound)
    board.place("b.wav", play(7_001).wav)
    refused, good = sorted(board.follow_answers(channel, 2), key=lambda answer: answer.item)
    assert "quarantined" in refused.answer["error"] and "notes" in good.answer


def test_inference_over_the_deadline_of_its_slot_is_an_error_of_the_item(board: Board, release_folders: Path) -> None:
    """The engine is given a time in which it can't even begin."""
    settings = {SLOT: SlotSetting(deadline_s=0.000_001)}
    board.configuration = messages.Configure(device=DEVICE, threads=1, slots=settings)
    channel, _ = board.start_front()
    failed = board.load(channel, board.hold(release_folders / "release-1"))
    assert isinstance(failed, messages.LoadFailed) and "cancelled" in failed.reason
