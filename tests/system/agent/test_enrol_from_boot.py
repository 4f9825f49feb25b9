"""What becomes of the file on the boot partition: does it go once it has served, and does somebody hear how it went?"""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPT = Path(__file__).parents[3] / "packaging/agent/enrol-from-boot"
NAME = "shoal-enrol.toml"
RESULT = "shoal-enrol-result.txt"
REFUSED = "shoal-enrol-refused.toml"
CONTENT = 'token = "abc"\n'


class BootPartition(NamedTuple):
    """Two places where it may be mounted, and an agent that answers as it is told to."""

    first: Path
    second: Path
    programs: Path

    def run(self, *, code: int) -> subprocess.CompletedProcess[str]:
        """The script, with an agent that keeps what it was given and ends so."""
        agent = self.programs / "shoal-agent"
        agent.write_text(
            f'#!/bin/sh\necho "$@" >{self.programs}/arguments\ncat >{self.programs}/given\necho word\nexit {code}\n'
        )
        agent.chmod(0o700)
        return subprocess.run(
            [str(SCRIPT), str(self.first), str(self.second)],
            env={"PATH": f"{self.programs}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def names(self) -> set[str]:
        return {path.name for path in self.second.iterdir()}


@pytest.fixture
def boot(tmp_path: Path) -> BootPartition:
    made = BootPartition(*(tmp_path / name for name in ("first", "second", "programs")))
    for folder in made:
        folder.mkdir()
    (made.second / NAME).write_text(CONTENT)
    return made


def test_file_goes_once_the_board_is_enrolled(boot: BootPartition) -> None:
    done = boot.run(code=0)
    assert (done.returncode, done.stdout) == (0, "word\n")
    assert (boot.programs / "arguments").read_text() == "enrol --file -\n"
    assert (boot.programs / "given").read_text() == CONTENT
    assert boot.names() == {RESULT}
    assert (boot.second / RESULT).read_text().splitlines()[1:] == ["word"]


def test_file_stays_while_the_fleet_cannot_be_reached(boot: BootPartition) -> None:
    assert boot.run(code=75).returncode == 75
    assert boot.names() == {NAME, RESULT}
    assert boot.run(code=0).returncode == 0
    assert boot.names() == {RESULT}


def test_file_that_was_refused_is_not_tried_again_and_stays_to_be_looked_at(boot: BootPartition) -> None:
    assert boot.run(code=1).returncode == 1
    assert boot.names() == {REFUSED, RESULT}
    assert (boot.second / REFUSED).read_text() == CONTENT
    (boot.programs / "given").unlink()
    assert boot.run(code=1).returncode == 0
    assert not (boot.programs / "given").exists()
