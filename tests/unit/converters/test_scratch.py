"""Are files of a build removed, also where it was killed, and never those of one that lives?"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from shoal_converters.scratch import PREFIX, remove_abandoned, scratch_folder

DEADLINE_S = 60.0
HOLD = """
import time
from shoal_converters.scratch import scratch_folder

with scratch_folder() as folder:
    (folder / "file").write_bytes(b"a model")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_nothing_is_left_of_a_block(temporary: Path) -> None:
    with scratch_folder() as first, scratch_folder() as second:
        (first / "file").write_bytes(b"")
        assert first != second
        assert not any(second.iterdir())
    assert not any(temporary.iterdir())


def test_what_a_killed_process_left_is_removed_but_nothing_that_is_held(temporary: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)}
    )
    with process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        remove_abandoned()
        assert (left / "file").exists()
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    with scratch_folder() as held:
        remove_abandoned()
        assert list(temporary.iterdir()) == [held]


def test_what_others_named_is_left_alone(temporary: Path) -> None:
    foreign = temporary / "shoal-another"
    foreign.mkdir()
    (temporary / f"{PREFIX}file").write_bytes(b"")
    (temporary / f"{PREFIX}link").symlink_to(foreign)
    remove_abandoned()
    assert len(list(temporary.iterdir())) == 3
