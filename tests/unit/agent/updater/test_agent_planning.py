"""Which releases of the agent does a board put on trial, and which does it refuse with words?"""

from typing import Any

import pytest
from msgspec.structs import replace
from shoal_agent.updater.agent_planning import Installed, plan_agent
from shoal_agent.updater.errors import Refused
from shoal_agent.updater.planning import Board, find_revocation, needed_files
from shoal_wire.agent_release import AgentPart, AgentTree
from shoal_wire.grant import Grant
from shoal_wire.manifest import Manifest, SealedFile
from shoal_wire.messages import Assignment
from shoal_wire.metadata import Floors

from tests.unit.agent.updater.releases import model, sealed

DIGEST = "9" * 64
BOARD = Board(engines={}, architecture="aarch64", memory_bytes=1 << 30, agent_version="0.1.0", python="3.11")
INSTALLED = Installed(package_version="0.1.0", refusal=None)
FILES = (sealed("agent-aarch64-3.11", "a" * 64), sealed("agent-x86_64-3.11", "b" * 64))


def part(**changes: Any) -> AgentPart:
    trees = (
        AgentTree(machine="aarch64", python="3.11", file=FILES[0].name, unpacked_bytes=1000),
        AgentTree(machine="x86_64", python="3.11", file=FILES[1].name, unpacked_bytes=1000),
    )
    return replace(AgentPart(version="0.2.0", oldest_state=1, newest_state=1, trees=trees), **changes)


def manifest(agent: AgentPart | None = None, **changes: Any) -> Manifest:
    made = Manifest(
        critical=("agent",),
        name="shoal-agent",
        version=3,
        created_at="",
        licence="",
        provenance="",
        agent=agent or part(),
        files=FILES,
    )
    return replace(made, **changes)


def assignment(*files: SealedFile) -> Assignment:
    grants = tuple(Grant(file.ciphertext_sha256, 1, "") for file in files or FILES)
    return Assignment(release="shoal-agent", version=3, manifest_sha256=DIGEST, grants=grants)


def test_the_archive_for_this_machine_and_python_is_taken() -> None:
    plan = plan_agent(manifest(), assignment(), floors={}, board=BOARD, installed=INSTALLED)
    assert (plan.file, plan.tree.machine, plan.agent.version) == (FILES[0], "aarch64", "0.2.0")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "not-installed-by-a-package": ({"installed": None}, "wasn't installed by a package"),
    "taken-back-before": ({"installed": Installed("0.1.0", "crashed")}, "was tried on this board .*: crashed"),
    "of-another-release": ({"manifest": manifest(version=4)}, "its manifest is of shoal-agent 4"),
    "of-models": ({"manifest": manifest(agent=None, models=(model(),))}, "no release of the agent"),
    "below-the-floor": ({"floors": {"shoal-agent": 4}}, "below the agent's floor, 4"),
    "below-the-floor-of-another": ({"floors": {"notes": 9, "shoal-agent": 9}}, "below the agent's floor, 9"),
    "older-than-the-package": ({"installed": Installed("0.2.1", None)}, "older than the package's own, 0.2.1"),
    "other-machine": ({"board": BOARD._replace(architecture="riscv64")}, "this board is riscv64 with Python 3.11"),
    "other-python": ({"board": BOARD._replace(python="3.13")}, "this board is aarch64 with Python 3.13"),
    "state-too-new": ({"manifest": manifest(part(oldest_state=2, newest_state=3))}, "of format 2 to 3, this one has 1"),
    "no-grant": ({"assignment": assignment(FILES[1])}, "no grant for its file agent-aarch64-3.11"),
}
REFUSED["of-models"][0]["manifest"] = replace(manifest(), agent=None, models=(model(),))


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_with_words(name: str) -> None:
    changes, message = REFUSED[name]
    given: dict[str, Any] = {
        "manifest": manifest(),
        "assignment": assignment(),
        "floors": {"notes": 9},
        "board": BOARD,
        "installed": INSTALLED,
    }
    given |= changes
    with pytest.raises(Refused, match=message):
        plan_agent(given.pop("manifest"), given.pop("assignment"), **given)


def test_the_same_version_as_the_packages_own_may_come() -> None:
    plan_agent(manifest(), assignment(), floors={}, board=BOARD, installed=Installed("0.2", None))
    plan_agent(manifest(), assignment(), floors={}, board=BOARD, installed=Installed("", None))


def test_one_file_is_needed_and_it_is_the_variant() -> None:
    assert needed_files(manifest(), "agent-x86_64-3.11") == (FILES[1],)
    with pytest.raises(Refused, match="has no file 'agent-mips'"):
        needed_files(manifest(), "agent-mips")


def test_a_floor_that_was_raised_revokes_the_agent_by_its_name() -> None:
    assert find_revocation(manifest(), DIGEST, revoked=Floors(floors={"notes": 9})) is None
    reason = find_revocation(manifest(), DIGEST, revoked=Floors(floors={"shoal-agent": 4}))
    assert reason is not None and "version 3 of the agent is below its floor, 4" in reason
