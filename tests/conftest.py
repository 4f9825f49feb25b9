"""How do all tests run, and what do several kinds of them share?

Hypothesis has no deadline: these machines are shared, and a slow example is no fault. The note events example's release
folders are built once a run.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")
# A shell starts background jobs with SIGINT ignored, and that is inherited: the programs under test must see it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their place: those of a key or a certificate differ in each process that collects them."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def release_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`release-1` to `release-4`, built by the command over what an earlier run left."""
    out = tmp_path_factory.mktemp("releases")
    (out / "release-1").mkdir()
    for name in ("release.json", "left-over"):
        (out / "release-1" / name).write_bytes(b"")
    command = [sys.executable, "-m", "shoal_converters.note_events", "build", "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["version"] for line in done.stdout.splitlines()] == [1, 2, 3, 4]
    return out
