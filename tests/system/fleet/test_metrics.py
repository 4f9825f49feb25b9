"""Can a real Prometheus watch a real fleet, and does it understand what the dashboard asks?"""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from shoal_fleet.database import make_sessions, open_engine
from shoal_fleet.state import StatePaths
from shoal_fleet.telemetry.service import commit_batch
from shoal_wire.encoding import encode
from shoal_wire.messages import Batch

from tests.dashboard import expressions, read_dashboard
from tests.publisher import make_release
from tests.system.fleet.fleet_site import Fleet, message_of, run_cli, run_fleet
from tests.unit.fleet.metrics.samples import parse, value
from tests.unit.fleet.telemetry.rows import event, process, telemetry

DEADLINE_S = 60.0
STREAM = "0" * 32


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """With a device, a release and a token for monitoring."""
    with run_fleet(tmp_path_factory.mktemp("fleet")) as running:
        running.begin()
        running.publish(make_release("pond", 1))
        running.enrol("heron")
        yield running


@pytest.fixture(scope="module")
def token(fleet: Fleet) -> str:
    """As docs/monitoring.md has it made."""
    return run_cli(fleet.program.state, "token", "add", "prometheus", "--role", "viewer").stdout.strip()


def fetch(fleet: Fleet, token: str) -> httpx.Response:
    return fleet.http.get("/metrics", headers={"Authorization": f"Bearer {token}"})


def wait_for(found: Callable[[], bool], *, what: Callable[[], str] = lambda: "it didn't come to that") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not found():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def send(fleet: Fleet, *, first: int) -> None:
    """Rows of the device, committed as the server does it."""
    device = fleet.get("/api/v1/devices/heron")["id"]
    rows = (telemetry(10.0, 20.0, errors=1, deaths=1), event("worker-died"), process("daemon"))
    raw = tuple(msgspec.Raw(encode(row)) for row in rows)
    batch = Batch(device=device, stream=STREAM, first=first, rows=raw)
    engine = open_engine(StatePaths(fleet.program.state).database)
    with make_sessions(engine)() as session:
        commit_batch(session, batch, now=time.time())
    engine.dispose()


def test_a_running_fleet_tells_of_itself(fleet: Fleet, token: str) -> None:
    wait_for(lambda: value(parse(fetch(fleet, token).text), "shoal_broker_connected") == 1)
    send(fleet, first=1)
    found = parse(fetch(fleet, token).text)
    profile = fleet.get("/api/v1/devices/heron")["profile"]
    assert value(found, "shoal_devices", project="default", profile=profile, state="silent") == 1
    assert value(found, "shoal_events_total", event="worker-died") == 1
    assert value(found, "shoal_answers_total", release="other", version="other") == 2
    assert value(found, "shoal_warnings") == len(fleet.get("/api/v1/warnings")["warnings"])
    assert value(found, "shoal_metadata_expiry_timestamp_seconds", role="root") > time.time()
    assert value(found, "process_open_fds") > 10


def test_a_token_of_one_project_is_refused_in_words(fleet: Fleet) -> None:
    made = run_cli(
        fleet.program.state, "token", "add", "yard", "--role", "viewer", "--project", "default"
    ).stdout.strip()
    reply = fetch(fleet, made)
    assert reply.status_code == 403
    assert "viewer of every project" in message_of(reply)


def test_checker_of_prometheus_finds_nothing_to_mend(fleet: Fleet, token: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it comes with prometheus")
    send(fleet, first=13)
    told = fetch(fleet, token).content

    done = subprocess.run(
        [program, "check", "metrics"], input=told, capture_output=True, timeout=DEADLINE_S, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class Prometheus:
    """The real one, on a free port of the loopback."""

    def __init__(self, folder: Path, *, fleet: Fleet, token: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is not installed")
        (folder / "token").write_text(token)
        configuration = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
            "scrape_configs": [
                {
                    "job_name": "shoal",
                    "scheme": "https",
                    "authorization": {"credentials_file": str(folder / "token")},
                    "tls_config": {"ca_file": str(fleet.program.authority)},
                    "static_configs": [
                        {"targets": [fleet.program.addresses["operators_url"].removeprefix("https://")]}
                    ],
                }
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(configuration))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        options = [f"--web.listen-address={self._url.removeprefix('http://')}", f"--storage.tsdb.path={folder}/data"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, f"--config.file={folder}/prometheus.yml", *options], stdout=log, stderr=log
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API answers; None where it doesn't yet."""
        try:
            reply = httpx.get(f"{self._url}/api/v1/{path}", params=parameters, trust_env=False, timeout=DEADLINE_S)
        except httpx.TransportError:
            return None
        return reply.json() if reply.status_code != 503 else None

    def results(self, expression: str) -> list[Any]:
        answer = self.ask("query", query=expression)
        return [] if answer is None else answer["data"]["result"]

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(DEADLINE_S)


@pytest.fixture
def prometheus(tmp_path: Path, fleet: Fleet, token: str) -> Iterator[Prometheus]:
    running = Prometheus(tmp_path, fleet=fleet, token=token)
    yield running
    running.end()


NOT_HERE = "refused_messages|process_start_time"


def ask_for(expression: str) -> str:
    """A dashboard's expression as Grafana would send it; over five minutes, as a busy machine scrapes seldom."""
    return re.sub(r"\$__rate_interval", "5m", re.sub(r'=~"\$\w+"', '=~".*"', expression))


def test_prometheus_scrapes_the_fleet_and_answers_what_the_dashboard_asks(fleet: Fleet, prometheus: Prometheus) -> None:
    wait_for(lambda: bool(prometheus.results('up{job="shoal"} == 1')))
    wait_for(lambda: bool(prometheus.results("shoal_devices")))
    for first in (4, 7, 10):  # a rate needs several samples
        before = prometheus.results('shoal_events_total{event="worker-died"}')
        send(fleet, first=first)
        wait_for(lambda before=before: prometheus.results('shoal_events_total{event="worker-died"}') != before)  # type: ignore[misc]
    # What there is none of in this fleet, and a restart that didn't happen, has no answer.
    asked = [one for one in map(ask_for, expressions(read_dashboard())) if not re.search(NOT_HERE, one)]

    def missing() -> list[str]:
        return [one for one in asked if not prometheus.results(one)]

    wait_for(lambda: not missing(), what=lambda: str(missing()))
