"""Do the demo's boards differ as they should, and can an agent read what they are told?"""

from pathlib import Path

import pytest
from shoal_agent.configuration import parse_configuration
from shoal_agent.engine_table import ENGINES
from shoal_fleet.command.demo.boards import BOARDS, DIGITS, FACES, NOTES, Board, agent_configuration, boards_with


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_agent_may_use_the_boards_engine_only_and_measures_nothing_of_its_own_accord(board: Board) -> None:
    folder = Path('/srv/a "strange"\\place\x7f')
    text = agent_configuration(board, folder=folder)
    configuration = parse_configuration(text.encode(), path=folder / "agent.toml", environment={})
    assert configuration.engines == (board.engine,)
    assert (configuration.tuning.at_install, configuration.tuning.all_variants) == (False, False)
    sources = {source.name: (source.path, source.release) for source in configuration.sources}
    assert sources == {feed.source: (str(folder / feed.source), feed.model) for feed in board.feeds}


def test_each_board_has_another_engine_and_runs_the_engines_own_format() -> None:
    assert len({board.engine for board in BOARDS}) == len(BOARDS) == 3
    assert {board.engine for board in BOARDS} == {"litert", "onnxruntime", "openvino"}
    assert all(ENGINES[board.model_format][0] == board.engine for board in BOARDS)


def test_faces_go_to_the_boards_that_read_tflite_and_notes_to_all() -> None:
    assert {board.engine for board in boards_with(FACES)} == {one.engine for one in BOARDS} & set(ENGINES["tflite"])
    assert boards_with(NOTES) == BOARDS


def test_digits_go_to_one_board_that_reads_onnx() -> None:
    assert [board.engine for board in boards_with(DIGITS)] == ["onnxruntime"]
