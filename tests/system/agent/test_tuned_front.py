"""Does a real front serve as tuning chose, and go over to another choice without losing an item?"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting
from shoal_agent.daemon.memory import children
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import ServingChoice
from shoal_converters.note_events.evaluation import play
from shoal_wire.manifest import Manifest, parse_manifest
from shoal_wire.tuning import Candidate
from shoal_worker.channel import Channel

from tests.system.agent.front_board import DEVICE, Board, send
from tests.tunable_release import DAMAGED, ONNX, TFLITE, build_tunable_release

SLOT = "note-events"
RESOURCE_PRESERVING = messages.Configure(
    device=DEVICE, threads=1, slots={SLOT: SlotSetting(swap="resource-preserving")}
)
Choices = dict[str, ServingChoice]


@pytest.fixture(scope="module")
def release(release_folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tunable") / "release"
    return build_tunable_release(release_folders / "release-2", out, with_damaged=True)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    yield board
    board.close()


def manifest_of(board: Board, held: HeldRelease) -> Manifest:
    return parse_manifest((board.store / held.reference.manifest_sha256).read_bytes())


def files_of(manifest: Manifest, variant: str) -> tuple[str, ...]:
    """Digests of a variant's plaintext files."""
    (names,) = [one.files for one in manifest.models[0].variants if one.name == variant]
    return tuple(manifest.file(name).plaintext_sha256 for name in names)


def choose(board: Board, held: HeldRelease, variant: str, engine: str, *, threads: int = 1, batch: int = 1) -> Choices:
    candidate = Candidate(variant=variant, engine=engine, threads=threads, batch=batch)
    files = files_of(manifest_of(board, held), variant)
    return {SLOT: ServingChoice(candidate=candidate, files=files, engine_version="1", key="0" * 64)}


def order(board: Board, held: HeldRelease, tuned: Choices) -> messages.Load:
    return messages.Load(slot=SLOT, held=held, store=str(board.store), content_keys=board.keys, tuned=tuned)


def load(
    board: Board, channel: Channel, held: HeldRelease, tuned: Choices
) -> tuple[messages.Serving | messages.LoadFailed, list[messages.Notice]]:
    """What the front says to an order in the end, and what it noticed until then."""
    notices: list[messages.Notice] = []

    def is_reply(message: object) -> bool:
        if isinstance(message, messages.Notice):
            notices.append(message)
        return isinstance(message, messages.Serving | messages.LoadFailed)

    send(channel, order(board, held, tuned))
    reply = board.follow(channel, until=is_reply)
    assert isinstance(reply, messages.Serving | messages.LoadFailed)
    return reply, notices


def expect_notes(board: Board, channel: Channel) -> None:
    """Whatever serves answers a sound."""
    board.place(f"s{len(board.answers)}.wav", play(7_000).wav)
    assert "notes" in board.follow_answers(channel, len(board.answers) + 1)[-1].answer


def test_chosen_engine_serves_with_as_many_threads_as_chosen(board: Board, release: Path) -> None:
    board.configuration = messages.Configure(device=DEVICE, threads=2)
    held = board.hold(release)
    channel, front = board.start_front()
    serving, notices = load(board, channel, held, choose(board, held, ONNX, "openvino", threads=1, batch=4))
    assert isinstance(serving, messages.Serving)
    assert (serving.variant, serving.engine, notices) == (ONNX, "openvino", [])
    (worker,) = children(front.pid)
    variables = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=1" in variables or len(os.sched_getaffinity(0)) == 1
    expect_notes(board, channel)


def swap_choices(board: Board, held: HeldRelease, choices: list[Choices]) -> list[messages.Serving]:
    """Items all the time while one choice follows the other; every one is answered in the end, once."""
    sounds, names = [play(seed).wav for seed in range(7_000, 7_004)], itertools.count()
    ids: set[str] = set()

    def place_some() -> None:
        while len(list(board.inbox.iterdir())) < 4:
            number = next(names)
            ids.add(board.place(f"s{number:04d}.wav", sounds[number % len(sounds)]))

    channel, front = board.start_front()
    place_some()
    served = []
    for choice in choices:
        reply, _ = load(board, channel, held, choice)
        assert isinstance(reply, messages.Serving)
        served.append(reply)
        place_some()
        board.follow_answers(channel, len(board.answers) + 1)
        place_some()
    board.follow_answers(channel, len(ids))
    assert sorted(answer.answer_id for answer in board.answers) == sorted(ids)
    assert [answer for answer in board.answers if "error" in answer.answer] == [] and board.deaths == []
    assert len(children(front.pid)) == 1
    return served


@pytest.mark.timeout(300)
@pytest.mark.parametrize("configuration", [None, RESOURCE_PRESERVING], ids=["beside", "instead"])
def test_other_choice_changes_variant_and_engine_and_no_item_is_lost(
    board: Board, release: Path, configuration: messages.Configure | None
) -> None:
    board.configuration = configuration or board.configuration
    held = board.hold(release)
    served = swap_choices(
        board, held, [{}, choose(board, held, TFLITE, "litert"), choose(board, held, ONNX, "openvino")]
    )
    assert [(one.variant, one.engine) for one in served] == [
        (ONNX, "onnxruntime"),
        (TFLITE, "litert"),
        (ONNX, "openvino"),
    ]


def test_same_choice_loads_nothing_and_another_one_counts_anew(board: Board, release: Path) -> None:
    held = board.hold(release)
    channel, front = board.start_front()
    choice = choose(board, held, ONNX, "openvino")
    load(board, channel, held, choice)
    expect_notes(board, channel)
    board.follow(channel, until=lambda message: isinstance(message, messages.Health) and message.answers == 1)
    before, (worker,) = board.health, children(front.pid)
    others = {**choice, "another-model": choice[SLOT]}
    assert load(board, channel, held, others) == (load(board, channel, held, choice)[0], [])
    assert children(front.pid) == [worker]
    load(board, channel, held, choose(board, held, ONNX, "onnxruntime"))
    after = board.follow(channel, until=lambda message: isinstance(message, messages.Health))
    assert before is not None and (after.answers, after.load != before.load) == (0, True)


def test_engine_that_is_not_here_is_told_and_the_others_serve(board: Board, release: Path) -> None:
    held = board.hold(release)
    channel, _ = board.start_front()
    serving, notices = load(board, channel, held, choose(board, held, ONNX, "abacus"))
    assert isinstance(serving, messages.Serving) and serving.engine == "onnxruntime"
    assert [(one.name, "abacus" in one.detail) for one in notices] == [("tuning-ignored", True)]


def damage_tflite(board: Board, held: HeldRelease) -> None:
    """Cut the sealed file of the TFLite variant off."""
    path = board.store / manifest_of(board, held).file("nmp.tflite").ciphertext_sha256
    path.write_bytes(path.read_bytes()[:-1])


def test_choice_that_cannot_be_loaded_leaves_what_serves(board: Board, release: Path) -> None:
    held = board.hold(release)
    channel, front = board.start_front()
    load(board, channel, held, {})
    (worker,) = children(front.pid)
    damage_tflite(board, held)
    failed, _ = load(board, channel, held, choose(board, held, TFLITE, "litert"))
    assert isinstance(failed, messages.LoadFailed) and "nmp.tflite" in failed.reason
    assert children(front.pid) == [worker]
    expect_notes(board, channel)


def test_choice_that_cannot_be_loaded_does_not_keep_a_release_from_serving(board: Board, release: Path) -> None:
    held = board.hold(release)
    channel, _ = board.start_front()
    damage_tflite(board, held)
    serving, notices = load(board, channel, held, choose(board, held, TFLITE, "litert"))
    assert isinstance(serving, messages.Serving) and serving.variant == ONNX
    assert [(one.name, "nmp.tflite" in one.detail) for one in notices] == [("tuning-ignored", True)]


@pytest.mark.parametrize(("variant", "is_untuned"), [(TFLITE, False), (DAMAGED, True)])
def test_golden_cases_refuse_the_choice_and_not_the_release(
    board: Board, release: Path, variant: str, is_untuned: bool
) -> None:
    held = board.hold(release)
    channel, _ = board.start_front("--check")
    tuned = choose(board, held, variant, "onnxruntime" if variant == DAMAGED else "litert")
    send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys, tuned=tuned))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert (verdict.passed, verdict.is_untuned) == (True, is_untuned), verdict.reason


def test_short_memory_says_nothing_about_a_release(board: Board, release: Path) -> None:
    held = board.hold(release, memory_bytes=1 << 50)
    channel, _ = board.start_front("--check")
    send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert (verdict.passed, verdict.is_short) == (False, True)
    assert "1125899907 MB" in verdict.reason and "are available on the board" in verdict.reason


def test_short_memory_for_a_choice_has_the_release_checked_without(board: Board, release: Path) -> None:
    held = board.hold(release, memory_bytes=1 << 50, of=TFLITE)
    channel, _ = board.start_front("--check")
    tuned = choose(board, held, TFLITE, "litert")
    send(channel, messages.Check(held=held, store=str(board.store), content_keys=board.keys, tuned=tuned))
    verdict = board.follow(channel, until=lambda message: isinstance(message, messages.Verdict))
    assert (verdict.passed, verdict.is_untuned, verdict.is_short) == (True, True, True), verdict.reason
