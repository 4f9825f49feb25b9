"""What do tests of the fleet's server side start from?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.fleet.broker_site import Site, open_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site with a running broker."""
    with open_site(tmp_path) as opened:
        opened.runner.run(opened.broker.start())
        yield opened


@pytest.fixture
def stopped_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose broker isn't started."""
    with open_site(tmp_path) as opened:
        yield opened
