"""Do the images run: a fleet whose server and broker are containers, with boards that come and are shut out?"""

import json
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.fleet.device_site import enrol_device
from tests.system.fleet.fleet_site import Fleet, FleetProgram, wait_for_answer
from tests.system.packages.container import (
    DEADLINE_S,
    IMAGE_PROGRAM,
    Image,
    make_images,
    skip_unless_possible,
    stop,
)
from tests.unit.fleet.metrics.samples import parse, value
from tests.unit.packaging.container.test_image import image as image_program
from tests.unit.packaging.container.test_image import rootfs

STATE, BROKER, KEYS = "/var/lib/shoal-fleet", "/var/lib/shoal-fleet/broker", "/var/lib/shoal-keys"
OWN = {"SHOAL_BIND": "127.0.0.1", "SHOAL_PORT": "0", "SHOAL_DEVICES_PORT": "0", "SHOAL_BROKER_PORT": "0"}
"""Tests share this machine's network."""


def wait_for(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not found():
        assert time.monotonic() < deadline, "it didn't come to that"
        time.sleep(0.2)


class FleetContainers(FleetProgram):
    """Server and broker, each in a container of its own."""

    def __init__(self, images: dict[str, Image], folder: Path) -> None:
        fleet = images["fleet"]
        self.state = fleet.make_volume(folder / "state")
        self.volumes = {STATE: self.state}
        self.volumes |= {BROKER: fleet.make_volume(folder / "broker"), KEYS: fleet.make_volume(folder / "keys")}
        (self.state / "broker").mkdir()  # where the volume is mounted
        self.log = folder / "fleet.log"
        self.broker = images["broker"].start(volumes={BROKER: self.volumes[BROKER]}, log=folder / "broker.log")
        self.process = fleet.start(volumes=self.volumes, log=self.log, extra=OWN)
        self.lines: list[dict[str, Any]] = []
        self._told: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        while not self.lines or "operators_url" not in self.lines[-1]:
            self.lines.append(json.loads(self._told.get(timeout=DEADLINE_S)))
        self.addresses = self.lines[-1]
        wait_for_answer(self.addresses["operators_url"], authority=self.authority)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert number is signal.SIGTERM
        codes = {stop(self.process), stop(self.broker)}
        return max(codes)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._told.put(line)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    """Of server and broker, on the root file systems that were kept: to make those takes minutes (`make image`)."""
    skip_unless_possible()
    kinds = ("fleet", "broker")
    for kind in kinds:
        if not rootfs.find_kept(image_program.IMAGES[kind].packages, machine=platform.machine()).exists():
            pytest.skip(f"no root file system is kept for the image of {kind}: make image")
    folder = tmp_path_factory.mktemp("images")
    made = make_images(kinds, folder, python=sys.executable)
    return {kind: Image(archive, folder / kind) for kind, archive in made.items()}


@pytest.fixture(scope="module")
def fleet(images: dict[str, Image], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    program = FleetContainers(images, tmp_path_factory.mktemp("fleet"))
    running = Fleet(program, token=program.lines[0]["token"])
    running.begin()
    yield running
    running.http.close()
    assert program.end() == 0, program.log.read_text()


def test_health_checks_say_that_both_run(images: dict[str, Image], fleet: Fleet) -> None:
    program = fleet.program
    assert isinstance(program, FleetContainers)
    found = images["fleet"].run("health", volumes=program.volumes, extra=OWN)
    assert (found.returncode, found.stdout) == (0, "ok\n"), found.stderr
    wait_for(lambda: images["broker"].run("health", volumes={BROKER: program.volumes[BROKER]}).returncode == 0)


def test_health_check_of_a_server_that_does_not_run_fails_in_words(images: dict[str, Image], tmp_path: Path) -> None:
    empty = {STATE: images["fleet"].make_volume(tmp_path / "empty")}
    found = images["fleet"].run("health", volumes=empty)
    assert found.returncode == 1
    assert "is `shoal-fleet serve` running?" in found.stderr


def test_the_server_reaches_its_broker_and_is_watched(images: dict[str, Image], fleet: Fleet) -> None:
    wait_for(lambda: value(parse(fleet.http.get("/metrics").text), "shoal_broker_connected") == 1)


def test_a_board_enrols_and_is_shut_out_at_the_broker_in_the_other_container(fleet: Fleet, tmp_path: Path) -> None:
    device = enrol_device(fleet, tmp_path, "heron")
    wait_for(device.is_let_in)
    fleet.post(f"/api/v1/devices/{device.id}/revoke", {}, status=200)
    wait_for(lambda: not device.is_let_in())


def test_programs_have_no_rights_and_nothing_to_write_but_their_volumes(images: dict[str, Image], fleet: Fleet) -> None:
    for container in (fleet.program.process, fleet.program.broker):  # type: ignore[attr-defined]
        (first,) = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{first}/status").read_text().splitlines() if ":\t" in line
        )
        assert status["Uid"].split() == [str(image_program.USER_ID)] * 4
        assert {status[one] for one in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1"
        mounts = [line.split() for line in Path(f"/proc/{first}/mountinfo").read_text().splitlines()]
        assert next(one for one in mounts if one[4] == "/")[5].startswith("ro,")


def test_an_image_says_where_it_is_from_and_nothing_of_who_made_it(images: dict[str, Image]) -> None:
    for kind, one in images.items():
        labels = one.config["Labels"]
        assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
        assert labels["org.opencontainers.image.version"], kind
        kept = one.root / "etc" / "apt"
        assert [path for path in kept.rglob("*") if "sources" in path.name] == []
        assert not (one.root / "etc" / "resolv.conf").exists()
        assert list((one.root / "var" / "log").iterdir()) == []


def test_the_same_sources_make_the_same_image(images: dict[str, Image], tmp_path: Path) -> None:
    digests = set()
    for folder in ("one", "two"):
        archive = make_images(["broker"], tmp_path / folder, python=sys.executable)["broker"]
        digests.add(archive.read_bytes())
    assert len(digests) == 1


@pytest.mark.long
def test_images_made_anew_from_debian_on_are_the_same_to_the_last_byte(tmp_path: Path) -> None:
    skip_unless_possible()
    kinds = ("broker", "fleet", "agent")
    made = make_images(kinds, tmp_path / "one", python=sys.executable)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    anew = [sys.executable, str(IMAGE_PROGRAM), *kinds, "--out", str(tmp_path / "two")]
    subprocess.run(anew, env=environment, check=True, timeout=1800, capture_output=True)
    for archive in made.values():
        assert archive.read_bytes() == (tmp_path / "two" / archive.name).read_bytes(), archive.name


@pytest.mark.long
def test_an_agent_enrols_and_runs_in_a_container_of_its_own(fleet: Fleet, tmp_path: Path) -> None:
    archive = make_images(["agent"], tmp_path, python=sys.executable)["agent"]
    agent = Image(archive, tmp_path / "unpacked")
    volumes = {"/var/lib/shoal-agent": agent.make_volume(tmp_path / "state")}
    enrolled = agent.run("enrol", fleet.make_token("egret"), "--name", "egret", volumes=volumes)
    assert enrolled.returncode == 0, enrolled.stderr
    examined = agent.run("doctor", "--json", volumes=volumes)
    assert "Traceback" not in examined.stderr
    running = agent.start(volumes=volumes, log=tmp_path / "agent.log")
    wait_for(lambda: bool(fleet.get("/api/v1/devices/egret")["online"]))
    assert stop(running) == 0, (tmp_path / "agent.log").read_text()
