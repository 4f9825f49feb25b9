"""Does the real tuning child measure, check a known choice, and keep the content keys to itself?

With a real engine and the smallest release there is; the test is the daemon's end of the channel.
"""

import base64
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from shoal_agent import tuning_messages as messages
from shoal_agent.configuration import Configuration, TuningSetting
from shoal_agent.daemon.memory import children
from shoal_agent.files import DiskFiles
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import FOLDER, load_choices
from shoal_wire.manifest import parse_manifest
from shoal_wire.messages import Tuned
from shoal_wire.tuning import Candidate, KnownChoice, Objective
from shoal_worker.channel import Channel

from tests.system.agent.front_board import Board
from tests.system.agent.tiny_release import MODEL, RIGHT, WRONG, build_tiny_release
from tests.system.fleet.broker_site import wait_until

DEADLINE_S = 240.0
BUDGET_S = 120.0
"""Never spent: with one thread and one engine there is one candidate that answers right, which settles the search."""


class Child:
    """A tuning child that a test started."""

    def __init__(self, board: Board, state: Path) -> None:
        self._board = board
        self._state = state
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "shoal_agent.tuning", "--fd", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.channel = Channel(ours)
        self.channel.greet(role="daemon")

    def order(
        self, held: HeldRelease, *, engines: tuple[str, ...] = ("onnxruntime",), objective: Objective = "latency"
    ) -> None:
        tuning = TuningSetting(budget_s=BUDGET_S, objective=objective)
        configuration = Configuration(threads=1, engines=engines, tuning=tuning)
        order = messages.Tune(
            held=held, state=str(self._state), content_keys=self._board.keys, configuration=configuration
        )
        self.channel.send(messages.as_frame(order))

    def receive(self) -> messages.FromTuning:
        return messages.parse_from_tuning(self.channel.receive(DEADLINE_S)[0])

    def close(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


@pytest.fixture
def held(board: Board, tmp_path: Path) -> HeldRelease:
    return board.hold(build_tiny_release(tmp_path / "release"))


@pytest.fixture
def start(board: Board, tmp_path: Path) -> Iterator[Callable[[], Child]]:
    started: list[Child] = []

    def start() -> Child:
        started.append(Child(board, tmp_path))
        return started[-1]

    yield start
    for child in started:
        child.close()


def known(board: Board, held: HeldRelease, variant: str) -> HeldRelease:
    """The release, with a choice of that variant that other boards made."""
    manifest = parse_manifest((board.store / held.reference.manifest_sha256).read_bytes())
    choice = KnownChoice(
        model=MODEL,
        candidate=Candidate(variant=variant, engine="onnxruntime", threads=1),
        files=(manifest.file(f"{variant}.onnx").plaintext_sha256,),
        engine_version="1",
        p50_ms=1.0,
        boards=3,
    )
    return replace(held, known=(choice,))


def tune(
    child: Child,
    held: HeldRelease,
    *,
    engines: tuple[str, ...] = ("onnxruntime",),
    objective: Objective = "latency",
) -> Tuned:
    child.order(held, engines=engines, objective=objective)
    found = child.receive()
    assert isinstance(found, messages.Found), found
    assert isinstance(child.receive(), messages.Done)
    assert child.process.wait(DEADLINE_S) == 0
    return found.row


def test_finds_what_answers_right_keeps_it_and_tells(
    board: Board, held: HeldRelease, start: Callable[[], Child], tmp_path: Path
) -> None:
    row = tune(start(), held)
    assert (row.model, row.reference, row.objective, row.is_confirmed) == (MODEL, held.reference, "latency", False)
    assert [one.candidate.variant for one in row.measured] == [RIGHT]
    choice = load_choices(DiskFiles(), tmp_path).models[MODEL]
    assert (choice.candidate, choice.files) == (row.choice, row.files)
    written = b"".join(path.read_bytes() for path in (tmp_path / FOLDER).iterdir())
    for key in board.keys.values():
        assert key.encode() not in written and base64.b64decode(key) not in written

    again = tune(start(), held)
    assert again == row, "the verdict of before holds"


def test_tries_several_calls_at_once_where_the_model_takes_them(
    board: Board, start: Callable[[], Child], tmp_path: Path
) -> None:
    held = board.hold(build_tiny_release(tmp_path / "longer", calls=3))
    row = tune(start(), held, objective="memory")  # which is settled soon: it doesn't vary as latencies do
    assert {one.candidate.batch for one in row.measured} == {1, 2}


def test_confirms_what_is_known_without_trying_every_engine(
    board: Board, held: HeldRelease, start: Callable[[], Child]
) -> None:
    row = tune(start(), known(board, held, RIGHT), engines=())
    assert row.is_confirmed
    assert [one.candidate for one in row.measured] == [row.choice]


def test_searches_where_what_is_known_answers_wrongly_here(
    board: Board, held: HeldRelease, start: Callable[[], Child]
) -> None:
    row = tune(start(), known(board, held, WRONG))
    assert (row.choice.variant, row.is_confirmed) == (RIGHT, False)


def test_says_why_nothing_can_be_tuned(board: Board, held: HeldRelease, start: Callable[[], Child]) -> None:
    (board.store / held.reference.manifest_sha256).unlink()
    child = start()
    child.order(held)
    answer = child.receive()
    assert isinstance(answer, messages.NotFound) and "not in the store" in answer.reason
    assert isinstance(child.receive(), messages.Done)


def test_ends_in_the_midst_of_a_search_with_its_daemon(held: HeldRelease, start: Callable[[], Child]) -> None:
    child = start()
    child.order(held)
    wait_until(lambda: bool(children(child.process.pid)), what="a worker runs")
    workers = children(child.process.pid)
    child.channel.close()
    child.process.wait(DEADLINE_S)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), what="its workers are gone")
