"""What do fault tests of the whole system share?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.system.releases import build_folders
from tests.faults.system.stage import Stage, open_stage


@pytest.fixture(scope="session")
def folders(release_folders: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Release folder of each version."""
    return build_folders(release_folders, out=tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory, folders: dict[int, Path]) -> Iterator[Stage]:
    """One for all tests of a module."""
    with open_stage(tmp_path_factory.mktemp("stage"), folders, environment={}) as stage:
        yield stage


@pytest.fixture
def stage(shared_stage: Stage) -> Stage:
    """The module's, in order again."""
    shared_stage.make_ready()
    return shared_stage
