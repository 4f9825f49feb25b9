"""Does a model go over to a plan only once it is built and proven, in a real front with real workers?

TensorRT is a fake (`onnx_tensorrt.py`): nothing here has run on a GPU.
"""

import json
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shoal_agent import front_messages as messages
from shoal_agent.front.operations.pipeline import compare
from shoal_converters.note_events.evaluation import play
from shoal_wire.manifest import Operation
from shoal_worker.channel import Channel

from tests import fake_tensorrt
from tests.system.agent.front_board import Board

pytestmark = pytest.mark.timeout(300)

FAKE_MODULE = Path(__file__).with_name("onnx_tensorrt.py")
NEAR = Operation("notes.f1", {"onset_tolerance_s": 0.05, "minimum_f1": 0.9})


class TensorRtHere:
    """An interpreter with the fake of TensorRT."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.interpreter = str(folder / "bin/python")
        self._packages = next(folder.glob("lib/python*/site-packages"))
        (self._packages / "tensorrt.py").symlink_to(FAKE_MODULE)
        (self._packages / "fake_tensorrt.py").symlink_to(fake_tensorrt.__file__)
        log = self._packages / "tensorrt.log"
        opening = f"import sys; sys.tensorrt_log = open({str(log)!r}, 'a')"
        (self._packages / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{opening}\n")
        self.play()

    def play(self, *, version: str = "10.3.0", answers_zeros: bool = False) -> None:
        settings = {"version": version, "answers_zeros": answers_zeros}
        (self._packages / "tensorrt.json").write_text(json.dumps(settings))

    def count(self, act: str, *, model_bytes: int) -> int:
        """How often it built a model of that size, or loaded its plan."""
        log = (self._packages / "tensorrt.log").read_text().splitlines()
        return log.count(f"{act} {model_bytes}")


@pytest.fixture
def tensorrt(tmp_path: Path) -> TensorRtHere:
    return TensorRtHere(tmp_path / "jetson")


@pytest.fixture
def board(tmp_path: Path, tensorrt: TensorRtHere) -> Iterator[Board]:
    board = Board(tmp_path)
    board.configuration = msgspec.structs.replace(board.configuration, interpreters={"tensorrt": tensorrt.interpreter})
    yield board
    board.close()


@pytest.fixture
def folder(release_folders: Path) -> Path:
    return release_folders / "release-2"


def model_bytes(folder: Path) -> int:
    (path,) = folder.glob("*.onnx")
    return path.stat().st_size


def is_notice(message: Any) -> bool:
    return isinstance(message, messages.Notice)


def says_engine(message: Any, engine: str) -> bool:
    return isinstance(message, messages.Serving) and message.engine == engine


def follow_going_over(board: Board, channel: Channel) -> tuple[messages.Notice, messages.Serving]:
    """What is told of it, in either order."""
    seen: list[Any] = []

    def is_told(message: Any) -> bool:
        if is_notice(message) or says_engine(message, "tensorrt"):
            seen.append(message)
        return {type(one) for one in seen} == {messages.Notice, messages.Serving}

    board.follow(channel, until=is_told)
    notice, serving = sorted(seen, key=lambda message: isinstance(message, messages.Serving))
    assert notice.name == "plan-ready", notice
    return notice, serving


def check_answer(board: Board, channel: Channel) -> None:
    """What serves hears the notes of a sound."""
    sound = play(7_000)
    board.answers.clear()
    board.place("s.wav", sound.wav)
    (answer,) = board.follow_answers(channel, 1)
    verdict = compare(NEAR, answer=answer.answer, expected=sound.expected)
    assert verdict.passed, verdict.words


def test_a_model_serves_at_once_and_goes_over_to_a_plan_that_is_kept(
    board: Board, tensorrt: TensorRtHere, folder: Path
) -> None:
    held = board.hold(folder)
    names = []
    for version, builds in (("10.3.0", 1), ("10.3.0", 1), ("10.7.0", 2)):
        tensorrt.play(version=version)
        channel, front = board.start_front()
        serving = board.load(channel, held)
        assert isinstance(serving, messages.Serving) and serving.engine == "onnxruntime"

        notice, serving = follow_going_over(board, channel)
        assert f"tensorrt {version} on Orin, sm_87: " in notice.detail and "golden cases passed" in notice.detail
        assert (serving.reference, serving.engine_version) == (held.reference, version)

        check_answer(board, channel)
        assert tensorrt.count("build", model_bytes=model_bytes(folder)) == builds
        names.append(sorted(path.name for path in (board.store.parent / "plans").iterdir()))
        front.kill()
        front.wait()
        channel.close()
    assert [len(kept) for kept in names] == [1, 1, 1]
    assert names[0] == names[1] != names[2]
    assert board.deaths == []


def test_a_plan_that_answers_wrongly_is_refused_and_not_built_again(
    board: Board, tensorrt: TensorRtHere, folder: Path
) -> None:
    tensorrt.play(answers_zeros=True)
    held = board.hold(folder)
    for _ in range(2):
        channel, front = board.start_front()
        board.load(channel, held)
        notice = board.follow(channel, until=lambda message: is_notice(message) or says_engine(message, "tensorrt"))
        assert notice.name == "plan-refused", notice
        assert "golden cases failed" in notice.detail and "F1 0.000" in notice.detail
        check_answer(board, channel)
        front.kill()
        front.wait()
        channel.close()
    assert tensorrt.count("build", model_bytes=model_bytes(folder)) == 1
    assert tensorrt.count("load", model_bytes=model_bytes(folder)) == 3, "built, and proven once at each start"


def test_where_tensorrt_does_not_work_the_model_serves_on_and_the_reason_is_told(
    board: Board, tensorrt: TensorRtHere, folder: Path
) -> None:
    Path(tensorrt.interpreter).unlink()
    channel, _ = board.start_front()
    board.load(channel, board.hold(folder))
    notice = board.follow(channel, until=is_notice)
    assert notice.name == "plan-refused"
    assert f"tensorrt doesn't work here: interpreter {tensorrt.interpreter} can't be started" in notice.detail
    check_answer(board, channel)
