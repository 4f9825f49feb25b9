"""What does a model that was cut off before it was signed cost? Its load, and never the front.

Every engine that reads the format gets the file, in a worker of its own.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from shoal_agent import front_messages as messages
from shoal_agent.engine_table import engines_for

from tests.system.agent import engine_board
from tests.system.agent.front_board import Board

pytestmark = pytest.mark.timeout(300)

VARIANTS = {"onnx-fp32": "nmp.onnx", "tflite-fp32": "nmp.tflite", "openvino-fp32": "nmp.bin"}
"""The file of each that is cut."""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board(tmp_path)
    board.configuration = msgspec.structs.replace(board.configuration, interpreters=dict(engine_board.interpreters()))
    yield board
    board.close()


def test_a_cut_model_is_refused_by_every_engine_and_the_front_lives_on(
    board: Board, tmp_path: Path, release_folders: Path
) -> None:
    channel, front = board.start_front()
    for variant, file in VARIANTS.items():
        for part in (0.02, 0.6):
            folder = tmp_path / f"{variant}-{part}"
            shutil.copytree(release_folders / "release-2", folder)
            whole = (folder / file).read_bytes()
            (folder / file).write_bytes(whole[: int(part * len(whole))])
            reply = board.load(channel, msgspec.structs.replace(board.hold(folder), variant=variant))
            assert isinstance(reply, messages.LoadFailed), (variant, part, reply)
            for engine in engines_for(variant.partition("-")[0], interpreters=board.configuration.interpreters):
                assert f"{engine}: " in reply.reason, (variant, part)
    assert front.poll() is None and board.deaths == []
    serving = board.load(channel, board.hold(release_folders / "release-2"))
    assert isinstance(serving, messages.Serving), serving
