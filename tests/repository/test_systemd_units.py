import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).resolve().parents[2] / "packaging" / "systemd").glob("shoal-*"))
PROGRAMS = ("/usr/bin/shoal-", "/usr/lib/shoal-agent/", "/usr/sbin/mosquitto")
EXPOSURES = {
    "shoal-agent": 1.8,
    "shoal-agent-enrol": 3.0,
    "shoal-agent-guard": 0.5,
    "shoal-broker": 1.1,
    "shoal-broker-reload": 1.6,
    "shoal-fleet": 1.1,
}
"""Unit to what docs/packages.md states."""


def verify(folder: Path) -> list[str]:
    """Return what systemd has to say about our units; its remarks about others' on this machine don't count."""
    units = sorted(folder.glob("shoal-*"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    return [line for line in done.stderr.splitlines() if "shoal" in line]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Copy the units, with programs that exist here: systemd looks for those that a unit starts."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    folder = tmp_path / "units"
    folder.mkdir()
    for unit in UNITS:
        text = unit.read_text()
        for program in PROGRAMS:
            text = text.replace(f"={program}", f"={tmp_path}{program}")
        for line in text.splitlines():
            program = line.removeprefix("ExecStart=").split(" ")[0]
            if line.startswith(f"ExecStart={tmp_path}"):
                Path(program).parent.mkdir(parents=True, exist_ok=True)
                Path(program).touch(mode=0o755)
        (folder / unit.name).write_text(text)
    return folder


def test_systemd_accepts_every_unit(units: Path) -> None:
    assert verify(units) == []


def test_systemd_reports_a_directive_that_it_does_not_know(units: Path) -> None:
    agent = units / "shoal-agent.service"
    agent.write_text(agent.read_text().replace("WatchdogSec=", "WatchdogSecs="))

    assert any("WatchdogSecs" in line for line in verify(units))


def test_agent_unit_keeps_plaintext_weights_off_the_disk() -> None:
    lines = {line for unit in UNITS if unit.name == "shoal-agent.service" for line in unit.read_text().splitlines()}

    assert {"MemorySwapMax=0", "LimitMEMLOCK=infinity", "LimitCORE=0", "NoNewPrivileges=yes"} <= lines


def test_agent_unit_lets_workers_shut_themselves_in() -> None:
    text = next(unit for unit in UNITS if unit.name == "shoal-agent.service").read_text()
    lists = [line.partition("=")[2] for line in text.splitlines() if line.startswith("SystemCallFilter=")]
    allowed = {call for names in lists for call in names.split()}

    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= allowed


@pytest.mark.parametrize("unit", sorted(EXPOSURES))
def test_unit_is_as_little_exposed_as_stated(unit: str, units: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    command += [f"--threshold={round(EXPOSURES[unit] * 10)}", f"{units}/{unit}.service"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze can't judge a unit that isn't loaded")

    assert done.returncode == 0, done.stdout.splitlines()[-1:]
