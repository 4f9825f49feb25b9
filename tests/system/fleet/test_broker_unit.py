"""In production the broker is a service of its own: does the fleet leave it alone, and find it when it comes?"""

import signal
import subprocess
import time
from pathlib import Path

from shoal_fleet.broker.process import find_mosquitto

from tests.system.fleet.fleet_site import DEADLINE_S, FleetProgram, lives


def test_fleet_writes_the_files_and_uses_the_broker_that_another_runs(tmp_path: Path) -> None:
    fleet = FleetProgram(tmp_path / "state", environment={"SHOAL_BROKER": "unit"})
    children = Path(f"/proc/{fleet.process.pid}/task/{fleet.process.pid}/children")
    assert children.read_text().split() == []
    configuration = tmp_path / "state" / "broker" / "mosquitto.conf"
    broker = subprocess.Popen([find_mosquitto(), "-c", str(configuration)])
    try:
        deadline = time.monotonic() + DEADLINE_S
        while "connected to the broker" not in fleet.log.read_text():
            assert time.monotonic() < deadline, fleet.log.read_text()
            time.sleep(0.1)
        assert fleet.end(signal.SIGKILL) == -signal.SIGKILL
        assert lives(broker.pid)
    finally:
        broker.terminate()
        broker.wait(DEADLINE_S)
