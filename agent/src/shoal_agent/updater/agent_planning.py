"""Which release of the agent may a board put on trial, and which of its archives? Rules only."""

from collections.abc import Mapping
from typing import NamedTuple

from shoal_wire.agent_release import AGENT_RELEASE, AgentPart, AgentTree, version_order
from shoal_wire.manifest import Manifest, SealedFile
from shoal_wire.messages import Assignment

from shoal_agent.own_trees import NOT_INSTALLED, STATE_FORMAT
from shoal_agent.updater.chunks import chunk_ranges
from shoal_agent.updater.errors import Refused
from shoal_agent.updater.planning import Board


class AgentPlan(NamedTuple):
    """What a release of the agent needs on this board."""

    agent: AgentPart
    tree: AgentTree
    file: SealedFile


class Installed(NamedTuple):
    """The agent that is there already, as far as it decides on another."""

    package_version: str
    """Of the package's own agent; empty where that can't be told."""
    refusal: str | None
    """Why this release's tree may never run here again."""


def plan_agent(
    manifest: Manifest, assignment: Assignment, *, floors: Mapping[str, int], board: Board, installed: Installed | None
) -> AgentPlan:
    """What to fetch. `installed`: None where no package installed the agent.

    Raises:
        Refused: nothing could take the update back; or the manifest is of another release, below the floor, without a
            tree for this board, of an agent that couldn't read this state folder, or older than the package's own; or
            it was tried here before; or the grant is missing.
    """
    what = f"release {assignment.release} {assignment.version}"
    if (manifest.name, manifest.version) != (assignment.release, assignment.version) or manifest.agent is None:
        raise Refused(f"{what}: its manifest is of {manifest.name} {manifest.version}, and no release of the agent")
    if installed is None:
        raise Refused(f"{what}: {NOT_INSTALLED}")
    if installed.refusal is not None:
        raise Refused(f"{what}: was tried on this board and taken back: {installed.refusal}")
    agent = manifest.agent
    floor = max(agent.floor, floors.get(AGENT_RELEASE, 0))
    if manifest.version < floor:
        raise Refused(f"{what}: is below the agent's floor, {floor}: it was revoked")
    if not agent.oldest_state <= STATE_FORMAT <= agent.newest_state:
        raise Refused(
            f"{what}: reads state folders of format {agent.oldest_state} to {agent.newest_state}, this one has "
            f"{STATE_FORMAT}"
        )
    own = installed.package_version
    if own and version_order(agent.version) < version_order(own):
        raise Refused(f"{what}: agent {agent.version} is older than the package's own, {own}: change the package")
    tree = choose_tree(agent, board=board, what=what)
    file = manifest.file(tree.file)
    chunk_ranges(file)
    if file.ciphertext_sha256 not in {grant.ciphertext_sha256 for grant in assignment.grants}:
        raise Refused(f"{what}: no grant for its file {file.name}")
    return AgentPlan(agent, tree, file)


def choose_tree(agent: AgentPart, *, board: Board, what: str) -> AgentTree:
    """The tree for this machine and Python. Raises Refused: there is none."""
    tree = agent.tree_for(machine=board.architecture, python=board.python)
    if tree is None:
        found = ", ".join(f"{one.machine} with Python {one.python}" for one in agent.trees)
        raise Refused(f"{what}: made for {found}; this board is {board.architecture} with Python {board.python}")
    return tree
