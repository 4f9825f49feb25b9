"""Does a health check tell a server that answers from one that doesn't?"""

from pathlib import Path

from tests.system.fleet.fleet_site import FleetProgram, run_cli, run_fleet


def test_a_server_that_answers_is_healthy_and_one_that_stopped_is_not(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        found = run_cli(fleet.program.state, "health")
        assert (found.returncode, found.stdout) == (0, "ok\n"), found.stderr
        assert fleet.program.end() == 0
        found = run_cli(fleet.program.state, "health")
        assert (found.returncode, found.stdout) == (1, "")
        assert "is `shoal-fleet serve` running?" in found.stderr


def test_a_fleet_on_all_addresses_is_reached_by_the_loopback(tmp_path: Path) -> None:
    program = FleetProgram(tmp_path / "state", environment={"SHOAL_BIND": "0.0.0.0"})
    try:
        found = run_cli(program.state, "health", environment=[("SHOAL_BIND", "0.0.0.0")])
        assert (found.returncode, found.stdout) == (0, "ok\n"), found.stderr
    finally:
        assert program.end() == 0


def test_a_folder_without_a_fleet_has_no_healthy_server(tmp_path: Path) -> None:
    found = run_cli(tmp_path, "health")
    assert found.returncode == 1
    assert "addresses.json" in found.stderr
