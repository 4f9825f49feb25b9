"""Are the demo's programs started side by side, watched, and ended with it?"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.command.demo.programs import Programs
from shoal_fleet.command.errors import CommandError

PYTHON = (sys.executable, "-c")
FOR_EVER = "import time; time.sleep(3600)"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path / "logs", {"GREETING": "hello"}) as found:
        yield found


def test_commands_run_side_by_side_and_get_their_own_input(programs: Programs, tmp_path: Path) -> None:
    """Each waits for a file that the other one makes: one after the other they would never end."""
    text = (
        "import json, pathlib, sys, time\n"
        "own, other = sys.argv[1:]\n"
        "pathlib.Path(own).touch()\n"
        "while not pathlib.Path(other).exists(): time.sleep(0.01)\n"
        "print(json.dumps({'read': sys.stdin.read()}))\n"
    )
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    first = programs.begin(*PYTHON, text, one, other, stdin="a")
    second = programs.begin(*PYTHON, text, other, one, stdin="b")
    assert (programs.result(first), programs.result(second)) == ({"read": "a"}, {"read": "b"})


def test_command_that_fails_is_quoted_unless_it_may(programs: Programs) -> None:
    text = "import sys; print('{\"half\": 1}'); sys.exit('no such thing')"
    with pytest.raises(CommandError, match="no such thing"):
        programs.run(*PYTHON, text)
    assert programs.run(*PYTHON, text, may_fail=True) == {"half": 1}


def test_program_that_ends_is_noticed_while_a_command_runs(programs: Programs) -> None:
    programs.start("agent", *PYTHON, "import sys; sys.exit('out of work')")
    with pytest.raises(CommandError, match="agent ended with exit code 1: out of work"):
        programs.run(*PYTHON, FOR_EVER)


def test_program_may_end_once_it_is_no_longer_needed(programs: Programs) -> None:
    programs.start("agent", *PYTHON, "").wait()
    programs.let_end("agent")
    programs.check()


def test_what_never_settles_is_given_back_as_it_is(programs: Programs) -> None:
    assert programs.settle(lambda: 5, is_settled=lambda found: found > 5, timeout_s=0) == 5
    with pytest.raises(CommandError, match="a miracle: not within 0 s"):
        programs.wait_for("a miracle", lambda: None, timeout_s=0)


def test_all_programs_and_commands_end_with_it(tmp_path: Path) -> None:
    with Programs(tmp_path / "logs", {}) as programs:
        running = [programs.start("agent", *PYTHON, FOR_EVER), programs.begin(*PYTHON, FOR_EVER).process]
        assert all(process.poll() is None for process in running)
    assert all(process.returncode is not None for process in running)


def test_command_may_leave_the_processor_to_others(programs: Programs) -> None:
    text = "import json, os; print(json.dumps({'niceness': os.nice(0)}))"
    usual = programs.run(*PYTHON, text)["niceness"]
    assert programs.result(programs.begin(*PYTHON, text, niceness=3)) == {"niceness": min(19, usual + 3)}
