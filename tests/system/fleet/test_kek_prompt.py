"""Is a new passphrase that is asked for at the terminal asked for twice, and one that is there once?"""

import os
import pty
import select
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.system.fleet.fleet_site import run_cli

DEADLINE_S = 120.0
ONCE, AGAIN = "secret of the key-encryption key: ", "the same again, as it is new: "


def at_terminal(state: Path, *words: str, answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run a command at a terminal of its own and answer each prompt; returns its exit code, and all that was shown."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "shoal_fleet.cli", *words, "--state", str(state)])
    shown, left = "", list(answers)
    while chunk := read_some(terminal):
        shown += chunk
        if left and shown.endswith(left[0][0]):
            os.write(terminal, f"{left.pop(0)[1]}\n".encode())
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert left == [], f"it was never asked for {left[0][0]!r}: {shown}"
    return code, shown


def read_some(terminal: int) -> str:
    """What is shown next; nothing at its end."""
    assert select.select([terminal], [], [], DEADLINE_S)[0], "nothing is shown any more"
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # how Linux tells that the other end of a terminal was closed
        return ""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fleet under the passphrase "first", for tests that leave it so."""
    state = tmp_path_factory.mktemp("prompt") / "state"
    code, shown = at_terminal(state, "init", "--kek", "passphrase:prompt", answers=[(ONCE, "first"), (AGAIN, "first")])
    assert code == 0, shown
    assert "first" not in shown
    return state


def test_a_new_one_is_asked_for_twice_and_the_present_one_once(state: Path, tmp_path: Path) -> None:
    state = shutil.copytree(state, tmp_path / "copy")
    code, shown = at_terminal(
        state,
        *("kek", "rotate", "--to", "passphrase:prompt"),
        answers=[(ONCE, "first"), (ONCE, "second"), (AGAIN, "second")],
    )
    assert code == 0, shown
    code, shown = at_terminal(state, "keys", "rotate", answers=[(ONCE, "second")])
    assert code == 0, shown
    code, shown = at_terminal(state, "keys", "rotate", answers=[(ONCE, "first")])
    assert (code, "is another one than the fleet's secrets are under" in shown) == (2, True), shown


def test_nothing_is_changed_where_the_two_differ(state: Path) -> None:
    code, shown = at_terminal(
        state,
        *("kek", "rotate", "--to", "passphrase:prompt"),
        answers=[(ONCE, "first"), (ONCE, "second"), (AGAIN, "sceond")],
    )
    assert (code, "was not the same both times; nothing was changed" in shown) == (2, True), shown
    code, shown = at_terminal(state, "keys", "rotate", answers=[(ONCE, "first")])
    assert code == 0, shown


def test_the_key_may_be_named_otherwise_than_it_was(state: Path, tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("first\n")
    done = run_cli(state, "keys", "rotate", "--kek", f"passphrase:file:{tmp_path / 'passphrase'}")
    assert done.returncode == 0, done.stderr
