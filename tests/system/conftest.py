"""What do system tests share? The note events example's release folders, built once a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def release_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`release-1` to `release-4`, built by the command over what an earlier run left."""
    out = tmp_path_factory.mktemp("releases")
    (out / "release-1").mkdir()
    (out / "release-1" / "left-over").write_bytes(b"")
    command = [sys.executable, "-m", "shoal_converters.note_events", "build", "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["version"] for line in done.stdout.splitlines()] == [1, 2, 3, 4]
    return out
