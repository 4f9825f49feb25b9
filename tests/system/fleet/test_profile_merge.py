"""Does what the agent's tuning prints get into a profile by the operator's command, and nothing else?"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from shoal_wire.device_profile import parse_profile
from shoal_wire.tuning import BoardKind

from tests.unit.agent.tuning.verdict_example import VERDICT

PROFILES = Path(__file__).resolve().parents[3] / "device_profiles"
BOARD = BoardKind(
    architecture="aarch64", board="Raspberry Pi 5 Model B Rev 1.0", processor="aarch64 0xd0b", processors=4
)
DAY = 1_800_000_000.0  # 2027-01-15


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "tuning.json"
    path.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(VERDICT, at=DAY, board=BOARD, profile="raspberry-pi-5"))
    )
    return path


def merge(profile: str, report: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal_fleet.command.cli", "profile", "merge", str(PROFILES / f"{profile}.toml")]
    return subprocess.run([*command, str(report)], capture_output=True, text=True, timeout=60, check=False)


def test_finalists_of_a_tuning_get_into_the_profile_and_the_rest_of_it_stays(report: Path) -> None:
    done = merge("raspberry-pi-5", report)
    assert done.returncode == 0, done.stderr
    rows = parse_profile(done.stdout).measured_speeds
    assert [(row.variant, row.engine.value, row.threads, row.p50_ms) for row in rows] == [
        ("o", "onnxruntime", 2, 5.25),
        ("t", "litert", 1, 8.5),
    ]
    assert {str(row.measured_on) for row in rows} == {"2027-01-15"}
    assert done.stdout.startswith((PROFILES / "raspberry-pi-5.toml").read_text())


def test_report_of_another_board_is_refused(report: Path) -> None:
    done = merge("raspberry-pi-4", report)
    assert (done.returncode, done.stdout) == (1, "")
    assert "found one of raspberry-pi-5" in done.stderr


def test_report_of_an_emulated_board_is_refused(report: Path) -> None:
    emulated = msgspec.structs.replace(BOARD, is_emulated=True)
    report.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(VERDICT, at=DAY, board=emulated, profile="raspberry-pi-5"))
    )
    assert "emulated board" in merge("raspberry-pi-5", report).stderr
