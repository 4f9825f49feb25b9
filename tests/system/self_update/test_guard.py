"""Does the launcher become the agent that it chose, and does the guard's watch end one that hangs?"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.system.processes import wait_for
from tests.system.self_update.managed_agent import GUARD
from tests.unit.guard.guard_program import load_guard

guard = load_guard()

NEW = "2-bbbbbbbbbbbb"
TELLS = 'import json, os, sys; print(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if "SHOAL" in k}]))'


class Launched:
    """A board whose agents are small programs."""

    def __init__(self, folder: Path) -> None:
        self.trees = guard.Trees(folder / "state" / "agent", package=folder / "package")
        (folder / "package" / "site-packages" / "shoal_agent-0.1.0.dist-info").mkdir(parents=True)
        self.environment = {
            **os.environ,
            "SHOAL_STATE": str(folder / "state"),
            "SHOAL_AGENT_FILES": str(folder / "package"),
        }
        self.install(self.trees.package, TELLS)

    def install(self, folder: Path, program: str) -> None:
        """An agent in place of Python's interpreter."""
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        interpreter = folder / "bin" / "python3"
        interpreter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)} "$@"\n')
        interpreter.chmod(0o755)

    def put_on_trial(self, program: str, *, limit_s: float = 900.0) -> None:
        folder = self.trees.path(NEW)
        self.install(folder, program)
        python = "{}.{}".format(*sys.version_info[:2])
        made = {"version": "0.2.0", "python": python, "machine": os.uname().machine}
        (folder / "tree.json").write_text(json.dumps(made))
        self.trees.write(guard.Record(trial=guard.Trial(tree=NEW, limit_s=limit_s)))
        for link in ("current", "trial"):
            (self.trees.folder / link).symlink_to(f"versions/{NEW}")

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-I", str(GUARD), *words]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        said, complaint = process.communicate(timeout=60)
        return process.returncode, said, complaint


@pytest.fixture
def board(tmp_path: Path) -> Launched:
    return Launched(tmp_path)


def test_the_agent_is_told_where_its_trees_are_and_which_one_it_is(board: Launched) -> None:
    board.put_on_trial(TELLS)
    for arguments, tree in ((["run"], NEW), (["status", "--json"], "")):
        code, said, _ = board.run("launch", *arguments)
        given, environment = json.loads(said)
        assert code == 0
        assert given == ["-I", "-B", "-m", "shoal_agent.cli", *arguments]
        assert environment["SHOAL_AGENT_TREES"] == str(board.trees.folder)
        assert environment["SHOAL_AGENT_TREE"] == tree
        assert environment["SHOAL_AGENT_PACKAGE"] == "0.1.0"


def test_without_trees_the_packages_own_is_started_at_once(board: Launched) -> None:
    code, said, complaint = board.run("launch", "run")
    assert (code, json.loads(said)[1]["SHOAL_AGENT_TREE"], complaint) == (0, "", "")


def test_the_watch_ends_without_a_trial_and_takes_a_mark_away_that_was_left(board: Launched) -> None:
    assert board.run("watch")[0] == 0
    board.put_on_trial(TELLS)
    board.trees.write(guard.Record(committed=NEW))
    assert board.run("watch")[0] == 0
    assert not (board.trees.folder / "trial").is_symlink()
    assert board.trees.current() == NEW


IGNORES = pytest.param("signal.signal(signal.SIGTERM, signal.SIG_IGN); ", id="deaf", marks=pytest.mark.long)


@pytest.mark.parametrize("deafness", [pytest.param("", id="kind"), IGNORES])
def test_the_watch_ends_an_agent_that_hangs_and_the_next_start_is_of_another(deafness: str, board: Launched) -> None:
    board.put_on_trial(f"import signal, time; {deafness}print('hangs', flush=True); time.sleep(3600)", limit_s=0.5)
    agent = board.start("launch", "run")
    assert agent.stdout is not None and agent.stdout.readline() == "hangs\n"
    code, _, complaint = board.run("watch")
    assert code == 0
    assert f"tree {NEW} is refused: ran for " in complaint
    wait_for(lambda: agent.poll() is not None, what="the agent that hung has ended")
    agent.communicate()
    assert json.loads(board.run("launch", "run")[1])[1]["SHOAL_AGENT_TREE"] == ""
    assert board.trees.read().refused[0]["tree"] == NEW


def test_the_watch_ends_nobody_who_only_has_the_number_of_the_agent(board: Launched) -> None:
    board.put_on_trial(TELLS, limit_s=0.0)
    board.run("launch", "run")
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    try:
        record = board.trees.read()
        trial = guard.replace(record.trial, pid=stranger.pid)
        board.trees.write(guard.replace(record, trial=trial))
        assert board.run("watch")[0] == 0
        assert board.trees.read().refused[0]["tree"] == NEW
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_wrong_words_are_answered_with_an_example(board: Launched) -> None:
    code, _, complaint = board.run("start")
    assert (code, "example: guard.py launch run" in complaint) == (2, True)
