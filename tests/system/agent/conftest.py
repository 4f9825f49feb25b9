"""What do tests of the daemon start from?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agent.board import Board, enrolled_board
from tests.system.fleet.broker_site import Site, open_site


@pytest.fixture
def broker_site(tmp_path: Path) -> Iterator[Site]:
    """A running broker."""
    with open_site(tmp_path) as site:
        site.runner.run(site.broker.start())
        yield site


@pytest.fixture
def board(tmp_path: Path, broker_site: Site) -> Iterator[Board]:
    """An enrolled board whose daemon isn't started."""
    with enrolled_board(tmp_path, broker_site) as made:
        yield made
