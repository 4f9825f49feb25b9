"""What is done in each state of an update of the agent itself?

The states are those of any update; see `steps.py` for what a step may raise. Files are fetched and verified as all are.
Then the new agent is unpacked and tested beside the one that runs, and put on trial: the launcher's guard starts it,
and starts the one before unless it is committed. What comes after the switch is done by whichever agent was started.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.manifest import Manifest
from shoal_wire.sealed_file import read_parts, unseal
from shoal_wire.update import UpdateState

from shoal_agent.own_trees import NOT_INSTALLED, VERSIONS, OwnTrees, tree_of
from shoal_agent.slots import Journal, stored
from shoal_agent.updater import planning, slot_changes, steps
from shoal_agent.updater.agent_planning import AgentPlan, Installed, plan_agent
from shoal_agent.updater.collect import collect
from shoal_agent.updater.errors import Refused, Restarting
from shoal_agent.updater.own_programs import compile_tree, self_test
from shoal_agent.updater.tools import Tools
from shoal_agent.updater.unpacking import find_difference, unpack

ASK_S = 1.0
"""Between two questions to the daemon in a trial."""
GUARD_FACTOR = 1.5
"""The guard waits longer than the probation lasts: it ends what this step doesn't end."""


def plan(journal: Journal, tools: Tools) -> Journal:
    """Renew trust, check assignment and manifest, make sure that archive and tree fit on the disk."""
    records, assignment = tools.records, journal.assignment
    manifest, raw = steps.read_signed_manifest(journal, tools)
    records.write_floors(planning.raise_floors(records.floors(), manifest))
    plan = _plan(journal, manifest, tools)
    collect(records, planned=(plan.file,), manifest_sha256=assignment.manifest_sha256)
    _collect_trees(tools)
    path = stored(records.state, plan.file.ciphertext_sha256)
    present_bytes = records.files.size(path) or records.files.size(records.part(plan.file.ciphertext_sha256))
    free_bytes = records.files.free_bytes(records.state) - plan.tree.unpacked_bytes
    what = f"release {assignment.release} {assignment.version}"
    planning.check_space([(plan.file, present_bytes)], free_bytes=free_bytes, what=what)
    records.files.write(stored(records.state, assignment.manifest_sha256), raw)
    return replace(journal, variant=plan.file.name)


def stage(journal: Journal, tools: Tools) -> Journal:
    """Unpack the new agent beside the one that runs, and have it test itself. Nothing that runs notices."""
    steps.check_still_trusted(journal, tools)
    own, files, listen = _own(tools), tools.records.files, tools.daemon.listen
    manifest = steps.read_manifest(journal, tools)
    plan, staging = _plan(journal, manifest, tools), own.staging
    key = tools.daemon.ask_keys(planning.hold(journal, manifest))[plan.file.ciphertext_sha256]
    files.remove_folder(staging)
    staging.mkdir(mode=0o700, parents=True)
    with stored(tools.records.state, plan.file.ciphertext_sha256).open("rb") as sealed:
        plaintext = unseal(read_parts(sealed.read), base64.b64decode(key))
        contents = unpack(plaintext, staging, expected=plan.tree, version=plan.agent.version, pulse=listen)
    compile_tree(staging, pulse=listen)
    files.sync_all(staging)
    difference = find_difference(staging, contents, pulse=listen)
    if difference is not None:
        raise Refused(f"the new agent: {difference}")
    _test(staging, plan, tools)
    target = own.path(tree_of(journal.target))
    files.remove_folder(target)
    files.make_folder(own.folder / VERSIONS)
    files.move(staging, target)
    return replace(journal, served=tools.daemon.ask_agent().serving)


def switch(journal: Journal, tools: Tools) -> Journal:
    """Put the new agent on trial: the link is flipped, and the daemon ends to be started anew."""
    own, tree = _own(tools), tree_of(journal.target)
    held = planning.hold(journal, steps.read_manifest(journal, tools))
    tools.change_slot(AGENT_RELEASE, lambda slot: slot_changes.switch(slot, held, may_go_back=True))
    if (refusal := own.refusal_of(tree)) is not None:
        raise Refused(refusal)
    if own.running == tree:
        return journal
    own.begin_trial(tree, limit_s=GUARD_FACTOR * journal.assignment.probation.deadline_s)
    tools.daemon.restart()
    raise Restarting("the new agent is started on trial")


def prove(journal: Journal, tools: Tools) -> Journal:
    """Probation, in the new agent: its report must be acknowledged by the fleet, and what served must serve again,
    with the golden answers. An agent that can't reach its fleet could never be mended from there, so it goes back,
    whatever the reason; the guard has a limit of its own, for an agent that doesn't come this far."""
    own, tree = _own(tools), tree_of(journal.target)
    if own.running != tree:
        instead = own.running or "the package's own agent"
        raise Refused(own.refusal_of(tree) or f"{instead} was started in its place")
    limits, began = journal.assignment.probation, tools.monotonic()
    while not own.is_committed(tree):
        health = tools.daemon.ask_agent()
        missing = sorted(set(journal.served) - set(health.serving))
        elapsed_s = tools.monotonic() - began
        if health.is_reported and not missing and elapsed_s >= limits.seconds:
            _check_answers(journal, tools)
            if (refusal := own.commit(tree)) is not None:
                raise Refused(refusal)
        elif elapsed_s >= limits.deadline_s:
            wanting = f"{', '.join(missing)} doesn't serve" if missing else "the fleet didn't acknowledge its report"
            raise Refused(f"after {elapsed_s:.0f} s of at most {limits.deadline_s:.0f} s, {wanting}")
        else:
            tools.daemon.listen(ASK_S)
    return replace(journal, reason=f"reported to the fleet; models that serve as before: {len(journal.served)}")


def commit(journal: Journal, tools: Tools) -> Journal:
    """Forget what nobody needs any more; the guard knows already that this agent stays."""
    slot = tools.change_slot(AGENT_RELEASE, lambda slot: slot_changes.commit(slot, journal))
    previous = {tree_of(slot.previous.reference)} if slot.previous else set[str]()
    _own(tools).collect(keep={tree_of(journal.target), *previous})
    collect(tools.records)
    return journal


def fall_back(journal: Journal, tools: Tools) -> Journal:
    """Have the agent before start again, and never try this one again."""
    if go_back(journal, tools):
        raise Restarting("the agent before is started again")
    _collect_trees(tools)
    collect(tools.records)
    return journal


def go_back(journal: Journal, tools: Tools) -> bool:
    """What an update owes the board even where the rest can't be done: the guard starts the agent before. Whether this
    agent is the one that has to go, and is about to end."""
    tree, own = tree_of(journal.target), tools.own
    if own is not None:
        own.refuse(tree, reason=journal.reason)
    tools.change_slot(AGENT_RELEASE, lambda slot: slot_changes.fall_back(slot, journal))
    if own is None or own.running != tree:
        return False
    tools.daemon.restart()
    return True


def refuse(journal: Journal, tools: Tools) -> Journal:
    """Leave everything as it is, and never try this generation again."""
    _collect_trees(tools)
    return steps.refuse(journal, tools)


STEPS: Mapping[UpdateState, steps.Step] = {
    **steps.STEPS,
    UpdateState.PLANNING: plan,
    UpdateState.CHECKING: stage,
    UpdateState.SWITCHING: switch,
    UpdateState.PROBATION: prove,
    UpdateState.COMMITTING: commit,
    UpdateState.FALLING_BACK: fall_back,
    UpdateState.REFUSING: refuse,
}


def _own(tools: Tools) -> OwnTrees:
    if tools.own is None:
        raise Refused(NOT_INSTALLED)
    return tools.own


def _plan(journal: Journal, manifest: Manifest, tools: Tools) -> AgentPlan:
    own, tree = tools.own, tree_of(journal.target)
    return plan_agent(
        manifest,
        journal.assignment,
        floors=tools.records.floors(),
        board=tools.board,
        installed=None if own is None else Installed(own.package_version, own.refusal_of(tree)),
    )


def _test(staging: Path, plan: AgentPlan, tools: Tools) -> None:
    passed = self_test(staging, state=tools.records.state, pulse=tools.daemon.listen)
    found = (passed.version, passed.machine, passed.python, passed.state_format)
    expected = (plan.agent.version, plan.tree.machine, plan.tree.python, plan.agent.newest_state)
    if found != expected:
        raise Refused(f"the new agent says that it is {found}, its manifest {expected}")


def _check_answers(journal: Journal, tools: Tools) -> None:
    """Have each release that served answer its golden cases: pre- and post-processing are the agent's code.

    Raises:
        Refused: one gives other answers.
    """
    for name in journal.served:
        current = tools.slot(name).current
        if current is None:
            continue
        reply = steps.ask_check(current, tools)
        if reply.is_short:
            tools.daemon.event("check-left-out", f"{name}: no memory to run its golden cases: {reply.reason}")
        elif not reply.passed:
            raise Refused(f"golden cases of {name}: {reply.reason}")


def _collect_trees(tools: Tools) -> None:
    if tools.own is not None:
        slot = tools.records.agent_slot()
        tools.own.collect(keep={tree_of(held.reference) for held in (slot.current, slot.previous) if held})
