"""What do tests of the doctor start from?"""

from pathlib import Path

import pytest
from shoal_agent.doctor.board import Board

from tests.unit.agent.doctor.sound_board import make_board


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """One with nothing wrong."""
    return make_board(tmp_path)
