"""How does the updater run programs of a tree of the agent that doesn't run yet?"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from shoal_agent.self_test import Passed
from shoal_agent.updater.errors import Refused

COMPILE_S = 1800.0
SELF_TEST_S = 600.0
_POLL_S = 0.1
_SAID = 2000
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "SHOAL_THREADS", "SHOAL_OUTBOX_BYTES", "SHOAL_LOG_LEVEL")


def compile_tree(folder: Path, *, pulse: Callable[[], None]) -> None:
    """Have Python's compiled files lie beside the sources, so that no start writes them: nobody would sync those.

    They are taken without a look at the source's time. A file that can't be compiled is left to the self-test.
    """
    options = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folder / "site-packages"))
    _run(folder, options, pulse=pulse, timeout_s=COMPILE_S)


def self_test(folder: Path, *, state: Path, pulse: Callable[[], None]) -> Passed:
    """What the tree's agent says of itself, once it has imported all of its modules and read the state folder.

    Raises:
        Refused: it doesn't start here, or can't read what is there.
    """
    options = ["-B", "-m", "shoal_agent.self_test", "--state", str(state), "--parent", str(os.getpid())]
    if configuration := os.environ.get("SHOAL_CONFIG"):
        options += ["--config", configuration]
    code, said, complaint = _run(folder, options, pulse=pulse, timeout_s=SELF_TEST_S)
    if code != 0:
        raise Refused(f"the new agent fails its self-test with exit code {code}: {complaint.strip()[-_SAID:]}")
    try:
        return msgspec.json.decode(said, type=Passed)
    except msgspec.DecodeError as error:
        raise Refused(f"the new agent's self-test says nothing that can be read: {error}") from None


def _run(
    folder: Path, options: Sequence[str], *, pulse: Callable[[], None], timeout_s: float
) -> tuple[int, bytes, str]:
    """Exit code, standard output and standard error of the tree's interpreter, at low priority.

    Raises:
        Refused: it can't be started, or doesn't end in time.
    """
    interpreter = str(folder / "bin" / "python3")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        try:
            process = subprocess.Popen(
                ["nice", "-n", "10", interpreter, "-I", *options],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
                env=environment,
            )
        except OSError as error:
            raise Refused(f"{interpreter}: {error.strerror}") from None
        try:
            deadline = time.monotonic() + timeout_s
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise Refused(f"the new agent's {options[1]} took longer than {timeout_s:.0f} s")
                pulse()
                time.sleep(_POLL_S)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        complained.seek(0)
        return process.returncode, said.read(1 << 20), complained.read(1 << 20).decode(errors="replace")
