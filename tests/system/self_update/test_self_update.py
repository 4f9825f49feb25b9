"""Does a board take a newer agent, go back from a bad one by itself, and serve its model all the while?

The real fleet with its broker, the publisher's commands, and a real agent that the launcher starts.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.system.processes import wait_for
from tests.faults.system.site import Site
from tests.system.agent.tiny_release import MODEL, build_tiny_release
from tests.system.self_update.agent_trees import FAULTS, PYTHON, make_package, make_tree
from tests.system.self_update.managed_agent import ManagedAgent

SOURCE = "sounds"
CALM = {"answers": 1, "seconds": 0.0, "p95_ratio": 1000.0, "deadline_s": 300.0}
HASTY = {"answers": 1, "seconds": 0.0, "p95_ratio": 1000.0, "deadline_s": 12.0}
"""For agents that never report: nobody waits longer than he must."""


class Stage:
    """A fleet, and a board that serves one model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = Site(folder, environment={})
        self.state, self.items = folder / "board", folder / "items"
        self.items.mkdir()
        self.log = folder / "agent.log"
        self.release = build_tiny_release(folder / "model")
        self.site.publish({1: self.release})
        package = make_package(folder / "package", version="0.1.0")
        self.agent = ManagedAgent(self.state, package=package, log=self.log)
        self._given = 0

    def begin(self) -> None:
        """Enrol, start, and wait until the model serves."""
        token = self.folder / "token"
        token.write_text(self.site.make_token("board"))
        self.agent.command("enrol", token.read_text(), "--name", "board")
        (self.state / "agent.toml").write_text(
            f'threads = 1\n[tuning]\nat_install = false\n[[sources]]\nkind = "folder"\nname = "{SOURCE}"\n'
            f'path = "{self.items}"\nrelease = "{MODEL}"\n'
        )
        self.agent.start()
        rollout = self.roll_out(MODEL, 1)
        self.give()
        self.expect(rollout, "succeeded")

    @property
    def device(self) -> str:
        return str(json.loads((self.state / "device.json").read_bytes())["device"])

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.site.get(f"/api/v1/devices/{self.device}")
        return found

    def publish_agent(self, version: int, *, agent: str, fault: str = "") -> None:
        """As a publisher does."""
        tree = make_tree(self.folder / f"tree-{version}", version=agent, fault=fault)
        out = self.folder / f"agent-{version}"
        self.site.command("release", "agent", str(tree), "--version", str(version), "--out", str(out))
        self.site.command("release", "create", str(out), "--publisher", str(self.folder / "publisher"))

    def roll_out(self, release: str, version: int, *, probation: dict[str, float] = CALM) -> int:
        body = {"release": release, "version": version, "devices": [self.device], "probation": probation}
        return int(self.site.post("/api/v1/rollouts", body)["id"])

    def expect(self, rollout: int, state: str) -> str:
        """Wait for the end of a rollout; the reason that the device gave."""
        wait_for(lambda: self.site.attempt(rollout)["state"] not in ("assigned", "updating"), what=self.describe)
        attempt = self.site.attempt(rollout)
        assert attempt["state"] == state, self.describe()
        return str(attempt["reason"])

    def give(self) -> None:
        """A sound to answer."""
        self._given += 1
        data = (self.release / "case.wav").read_bytes()
        hidden = self.items / f".{self._given}"
        hidden.write_bytes(data)
        hidden.rename(self.items / f"sound-{self._given}.wav")

    def expect_answer(self) -> None:
        """The model serves: what is given is answered."""
        self.give()
        wait_for(lambda: self.site.query("SELECT COUNT(*) FROM answer")[0][0] >= self._given, what=self.describe)

    def describe(self) -> str:
        return self.log.read_text()[-6000:]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    try:
        stage.begin()
        stage.publish_agent(1, agent="0.2.0")
        yield stage
    finally:
        stage.agent.stop()
        stage.site.stop()
        print(stage.describe())


@pytest.fixture
def updated(stage: Stage) -> Stage:
    """The board runs release 1 of the agent, committed."""
    if stage.shown()["agent_version"] != "0.2.0":
        stage.expect(stage.roll_out("shoal-agent", 1), "succeeded")
    return stage


def test_a_board_takes_a_newer_agent_and_serves_on(stage: Stage) -> None:
    before = stage.shown()
    assert before["agent_version"] == "0.1.0"
    assert before["reported"]["agent"]["can_update"] is True
    starts = stage.agent.starts
    stage.expect(stage.roll_out("shoal-agent", 1), "succeeded")
    after = stage.shown()
    assert after["agent_version"] == "0.2.0"
    assert (after["reported"]["agent"]["python"], after["reported"]["agent"]["is_on_trial"]) == (PYTHON, False)
    assert stage.agent.starts == starts + 1
    assert stage.agent.current.startswith("1-")
    assert stage.agent.command("--version") == "shoal-agent 0.2.0"
    status = json.loads(stage.agent.command("status", "--json"))
    assert (status["tree"], status["is_on_trial"]) == (stage.agent.current, False)
    stage.expect_answer()
    assert {slot["release"] for slot in after["reported"]["slots"]} == {MODEL, "shoal-agent"}


REASONS = {
    "crashes": "started 3 times, and never kept",
    "hangs": "ran for .* s of at most 18 s",
    "is-mute": "the fleet didn't (acknowledge its report|hear from it)",
    "cannot-read-its-state": "fails its self-test with exit code 1: reads other states only",
}
LONG = [pytest.param(fault, marks=pytest.mark.long) for fault in ("hangs", "is-mute")]
VERSIONS = {fault: number for number, fault in enumerate(FAULTS, start=2)}


@pytest.mark.parametrize("fault", ["crashes", "cannot-read-its-state", *LONG])
def test_a_board_goes_back_from_an_agent_that_is_bad_and_serves_on(fault: str, updated: Stage) -> None:
    stage, starts, version = updated, updated.agent.starts, VERSIONS[fault]
    stage.publish_agent(version, agent="0.3.0", fault=fault)
    reason = stage.expect(stage.roll_out("shoal-agent", version, probation=HASTY), "failed")

    assert re.search(REASONS[fault], reason), reason
    assert stage.shown()["agent_version"] == "0.2.0"
    assert stage.agent.current.startswith("1-")
    assert not (stage.agent.trees / "trial").is_symlink()
    stage.expect_answer()
    if fault == "cannot-read-its-state":
        assert stage.agent.starts == starts, "nothing that ran has noticed"
