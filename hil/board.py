"""How does a test run something on the board under test?

A probe is a small program that needs Python 3.11 and its standard library only. It reaches the board through standard
input, so that nothing has to be installed there, and prints one JSON object.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROBES = Path(__file__).with_name("probes")
PROBE_TIMEOUT_S = 60.0


class LocalBoard:
    """The machine that the tests themselves run on."""

    def run_probe(self, name: str) -> dict[str, Any]:
        """Run hil/probes/<name>.py with the interpreter of the tests, and return what it printed.

        Raises:
            AssertionError: the probe failed; the message holds its traceback.
        """
        done = subprocess.run(
            [sys.executable, "-"],
            input=(PROBES / f"{name}.py").read_text(encoding="utf-8"),
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"probe {name} ended with {done.returncode}:\n{done.stderr}"
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


BOARDS = {"local": LocalBoard}
