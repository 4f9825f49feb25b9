"""Does the agent's package install, run, upgrade, go back and leave as a Debian package should?"""

import re
from pathlib import Path

import pytest
from shoal_agent.own_trees import STATE_FORMAT

from tests.system.packages.conftest import Builds, Installations
from tests.system.packages.debian_root import DebianRoot
from tests.system.packages.package_files import agent_version, with_version

STATE = "/var/lib/shoal-agent"
CONFIGURATION = "/etc/shoal/agent.toml"
SET_FORMAT = """
import json, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps({"format": int(sys.argv[2])}))
"""


@pytest.fixture(params=["bookworm", pytest.param("trixie", marks=pytest.mark.long)])
def suite(request: pytest.FixtureRequest) -> str:
    """A release of Debian."""
    return str(request.param)


@pytest.fixture
def agent(suite: str, install: Installations) -> DebianRoot:
    """A system on which the agent's package was just installed."""
    return install("shoal-agent", suite).system


def test_agent_runs_once_it_is_installed_and_leaves_as_it_should(suite: str, install: Installations) -> None:
    system, said = install("shoal-agent", suite)

    assert "shoal-agent enrol TOKEN" in said
    assert system.run("shoal-agent", "--version").stdout == f"shoal-agent {agent_version()}\n"
    examined = system.run("shoal-agent", "doctor", is_allowed_to_fail=True).stdout
    assert "engines: onnxruntime, litert can serve" in examined
    assert system.run("dpkg", "--verify", "shoal-agent").stdout == ""
    assert system.run("stat", "--format", "%U %a", STATE).stdout == "shoal-agent 700\n"
    assert system.run("systemctl", "is-enabled", "shoal-agent").stdout == "enabled\n"

    check_leaving(system)


def check_leaving(system: DebianRoot) -> None:
    """Removing keeps what is the person's; purging leaves nothing."""
    system.write(f"{STATE}/device.json", "{}")
    system.write(CONFIGURATION, "threads = 2\n")

    system.run("dpkg", "--remove", "shoal-agent")

    assert system.has(f"{STATE}/device.json")
    assert system.run("cat", CONFIGURATION).stdout == "threads = 2\n"
    assert not system.has("/usr/lib/shoal-agent")
    system.run("dpkg", "--purge", "shoal-agent")
    left = system.run("find", "/etc", "/usr", "/var", "-name", "*shoal*", "-not", "-path", "/var/log/*").stdout.split()
    assert left == []
    assert not system.has("/etc/shoal")


@pytest.mark.long
@pytest.mark.parametrize("version", ["9.9.9", "0.0.1"], ids=["upgrade", "downgrade"])
def test_another_version_keeps_state_and_configuration(
    version: str, suite: str, agent: DebianRoot, builds: Builds, tmp_path: Path
) -> None:
    agent.write(f"{STATE}/device.json", "{}")
    agent.write(CONFIGURATION, "threads = 2\n")

    agent.install(with_version(builds("shoal-agent", suite), version, folder=tmp_path))

    assert agent.run("cat", f"{STATE}/device.json").stdout == "{}"
    assert agent.run("cat", CONFIGURATION).stdout == "threads = 2\n"
    assert agent.run("dpkg-query", "--show", "--showformat", "${Version}", "shoal-agent").stdout == version
    assert agent.run("shoal-agent", "--version").stdout.startswith("shoal-agent ")


@pytest.mark.long
def test_older_version_is_refused_where_a_newer_one_wrote_the_state(
    suite: str, agent: DebianRoot, builds: Builds, tmp_path: Path
) -> None:
    device = f"{STATE}/device.json"
    agent.install(with_version(builds("shoal-agent", suite), "9.9.9", folder=tmp_path))
    newer = STATE_FORMAT + 1
    agent.run("setpriv", "--reuid=shoal-agent", "--clear-groups", "python3", "-c", SET_FORMAT, device, str(newer))
    before = agent.run("cat", device).stdout

    refused = agent.install(builds("shoal-agent", suite), is_allowed_to_fail=True)

    assert refused.returncode != 0
    assert f"version 9.9.9 has brought this board's state to format {newer}" in refused.stderr
    version = agent.run("dpkg-query", "--show", "--showformat", "${Version} ${db:Status-Status}", "shoal-agent").stdout
    assert version == "9.9.9 installed"
    told = agent.run("shoal-agent", "status", is_allowed_to_fail=True)
    assert (told.returncode, "a newer agent has written it" in told.stderr) == (1, True), told.stderr
    agent.run("dpkg", "--remove", "shoal-agent")
    assert agent.install(builds("shoal-agent", suite), is_allowed_to_fail=True).returncode != 0
    assert agent.run("cat", device).stdout == before
    agent.run("dpkg", "--purge", "shoal-agent")
    assert agent.install(builds("shoal-agent", suite)).returncode == 0


@pytest.mark.long
def test_configuring_twice_changes_nothing(agent: DebianRoot) -> None:
    before = agent.run("find", "/etc", "/usr/lib/shoal-agent", STATE, "-printf", "%p %m %u %l\\n").stdout

    agent.run("/var/lib/dpkg/info/shoal-agent.postinst", "configure", "0.0.1")

    assert agent.run("find", "/etc", "/usr/lib/shoal-agent", STATE, "-printf", "%p %m %u %l\\n").stdout == before


@pytest.mark.long
def test_openvino_is_found_once_its_package_is_there(suite: str, agent: DebianRoot, builds: Builds) -> None:
    agent.install(builds("shoal-agent-openvino", suite))

    examined = agent.run("shoal-agent", "doctor", is_allowed_to_fail=True).stdout

    assert re.search(r"engines: .*\bopenvino\b.* can serve", examined), examined


def test_command_never_runs_as_root(agent: DebianRoot) -> None:
    agent.write("/root/configuration.toml", "")
    agent.run("chmod", "600", "/root/configuration.toml")

    refused = agent.run("shoal-agent", "run", "--config", "/root/configuration.toml", is_allowed_to_fail=True)

    assert refused.returncode == 2
    assert "Permission denied" in refused.stderr


def test_board_tells_on_its_boot_partition_why_it_could_not_enrol(agent: DebianRoot) -> None:
    agent.write("/boot/shoal-enrol.toml", 'token = "of something else"\n')

    agent.run("/usr/lib/shoal-agent/enrol-from-boot", "/boot/firmware", "/boot", is_allowed_to_fail=True)

    assert not agent.has("/boot/shoal-enrol.toml")
    assert agent.has("/boot/shoal-enrol-refused.toml")
    assert "enrolment token" in agent.run("cat", "/boot/shoal-enrol-result.txt").stdout
