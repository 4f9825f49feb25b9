"""Does a plan go out wave by wave to boards that report over the broker, stop where it should, and go back?"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_agent.keys import load_keys
from shoal_wire import envelope, topics
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import KeySigner
from shoal_wire.messages import Desired, ReleaseReference, Reported, SlotReport, UpdateReport
from shoal_wire.topics import Up
from shoal_wire.update import UpdateState

from tests.system.fleet.broker_site import DEADLINE_S, wait_until
from tests.system.fleet.device_site import FILES, enrol_device
from tests.system.fleet.fleet_site import Fleet, run_fleet
from tests.system.fleet.operator_site import Operator

NAMES = ("canary", "one", "two", "three")
PLAN = """
release = "pond"
version = {version}
target = 'labels.site == "lake"'

[[waves]]
where = 'labels.canary == "yes"'

[[waves]]
count = 1

[[waves]]
"""


class PlayedBoard:
    """Enrolled by the real agent, and played from then on: it runs what it is told at once, or says that it can't."""

    def __init__(self, fleet: Fleet, folder: Path, name: str) -> None:
        self.enrolled = enrol_device(fleet, folder, name)
        self.refuses: set[int] = set()
        """Versions."""
        self._signer = KeySigner(load_keys(FILES, self.enrolled.state).identity)
        self._runs: ReleaseReference | None = None
        self._counter = 0
        self._connection = self.enrolled.connect()
        self._connection.listen()

    def play(self) -> None:
        """Do what has come since."""
        while not self._connection.messages.empty():
            topic, raw = self._connection.messages.get()
            if topic.endswith("/desired"):
                payload = base64.b64decode(json.loads(raw)["payload"])
                self._obey(decode(payload, Desired, what="desired document"))

    def close(self) -> None:
        self._connection.close()

    def _obey(self, desired: Desired) -> None:
        for one in desired.assignments:
            wanted = ReleaseReference(one.release, one.version, one.manifest_sha256)
            state, reason = UpdateState.COMMITTED, ""
            if wanted.version in self.refuses:
                state, reason = UpdateState.FELL_BACK, "golden cases failed"
            else:
                self._runs = wanted
            update = UpdateReport(
                epoch=desired.epoch, generation=desired.generation, target=wanted, state=state, reason=reason
            )
            self._report(desired, update)

    def _report(self, desired: Desired, update: UpdateReport) -> None:
        self._counter += 1
        slots = (
            ()
            if self._runs is None
            else (SlotReport(release="pond", current=self._runs, previous=None, serving=self._runs),)
        )
        reported = Reported(
            device=self.enrolled.id,
            counter=self._counter,
            stream="0" * 32,
            at=time.time(),
            agent_version="0.1.0",
            profile="generic",
            epoch=desired.epoch,
            generation=desired.generation,
            slots=slots,
            update=update,
        )
        raw = envelope.seal(encode(reported), envelope.REPORTED, self._signer)
        self._connection.publish(topics.up(self.enrolled.id, Up.REPORTED), raw, retain=True)


class Lake:
    """A fleet with three releases, an operator, and four boards."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.operator = Operator(fleet, folder / "operator")
        assert self.operator.log_in().code == 0
        assert self.operator.keys_init().code == 0
        for version in (1, 2, 3):
            assert self.operator.create(self.operator.folder("pond", version, model=b"m%d" % version)).code == 0
        self.boards = {name: PlayedBoard(fleet, folder, name) for name in NAMES}
        label = self.operator.shoal("device", "label", *NAMES, "--set", "site=lake", "--json")
        assert set(label.json) == set(NAMES)
        assert self.operator.shoal("device", "label", "canary", "--set", "canary=yes").code == 0
        first = self.operator.shoal("rollout", "start", "pond", "1", "--all", "--json").json["id"]
        self.expect(first, "succeeded")

    def plan(self, version: int, *options: str) -> list[str]:
        path = self.operator.home / "plan.toml"
        path.write_text(PLAN.format(version=version))
        return ["rollout", "plan", str(path), *options]

    def expect(self, rollout: int, state: str) -> dict[str, object]:
        """Play until the rollout is there; returns it."""

        def is_there() -> bool:
            for board in self.boards.values():
                board.play()
            return bool(self.shown(rollout)["state"] == state)

        wait_until(is_there, what=f"rollout {rollout} is {state}")
        return self.shown(rollout)

    def shown(self, rollout: int) -> dict[str, object]:
        shown: dict[str, object] = self.operator.shoal("rollout", "show", str(rollout), "--json").json
        return shown


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    with run_fleet(folder) as fleet:
        made = Lake(fleet, folder)
        yield made
        for board in made.boards.values():
            board.close()


def names(shown: dict[str, object], state: str) -> set[str]:
    devices = shown["devices"]
    assert isinstance(devices, list)
    return {one["name"] for one in devices if one["state"] == state}


def test_a_plan_is_shown_first_and_then_goes_out_wave_by_wave(lake: Lake) -> None:
    preview = lake.operator.shoal(*lake.plan(2, "--dry-run", "--json")).json
    assert [len(wave) for wave in preview["waves"]] == [1, 1, 2]
    assert preview["waves"][0] == ["canary"]
    lake.operator.shoal(*lake.plan(2)).refused(2, "expected --yes or --dry-run")
    number = lake.operator.shoal(*lake.plan(2, "--yes", "--json")).json["id"]
    shown = lake.expect(number, "succeeded")
    assert names(shown, "succeeded") == set(NAMES)
    text = lake.operator.shoal("rollout", "show", str(number)).out
    assert "wave 2 passed: 1 succeeded; 1 of 1 device succeeded" in text


def test_a_wave_that_fails_goes_back_and_the_rest_is_never_told(lake: Lake) -> None:
    second = lake.operator.shoal(*lake.plan(3, "--dry-run", "--json")).json["waves"][1]
    lake.boards[second[0]].refuses = {3}
    number = lake.operator.shoal(*lake.plan(3, "--yes", "--json")).json["id"]
    shown = lake.expect(number, "failed")
    assert (names(shown, "succeeded"), names(shown, "failed")) == ({"canary"}, set(second))
    assert len(names(shown, "aborted")) == 2
    assert "1 of 1 device failed, at most 0 (golden cases failed)" in str(shown["reason"])
    listed = lake.operator.shoal("device", "list", "--where", "runs.pond == 2", "--json").json
    assert {one["name"] for one in listed} == set(NAMES) - {"canary"}

    back = lake.operator.shoal("rollout", "roll-back", str(number), "--json").json[0]["id"]
    assert names(lake.expect(back, "succeeded"), "succeeded") == {"canary"}
    assert lake.operator.shoal("device", "list", "--where", "runs.pond != 2", "--json").json == []
    lake.boards[second[0]].refuses = set()
    again = lake.operator.shoal("rollout", "retry", str(number), "--json").json["id"]
    assert names(lake.expect(again, "succeeded"), "succeeded") == set(second)


def test_a_paused_rollout_waits_for_its_operator(lake: Lake) -> None:
    number = lake.operator.shoal(*lake.plan(1, "--yes", "--json")).json["id"]
    assert lake.operator.shoal("rollout", "pause", str(number)).out == f"rollout {number} is paused\n"
    lake.operator.shoal("rollout", "pause", str(number)).refused(1, "is paused, expected it to be running")
    deadline = time.monotonic() + DEADLINE_S
    while not names(lake.shown(number), "succeeded"):
        assert time.monotonic() < deadline
        lake.boards["canary"].play()
    assert len(names(lake.shown(number), "waiting")) == 3
    assert lake.operator.shoal("rollout", "resume", str(number)).code == 0
    lake.expect(number, "succeeded")


def test_an_expression_that_is_wrong_is_drawn(lake: Lake) -> None:
    ran = lake.operator.shoal("device", "list", "--where", "labels.site = 'lake'")
    assert ran.code == 1
    assert ran.err.splitlines()[1:] == ["    labels.site = 'lake'", "                ^"]
