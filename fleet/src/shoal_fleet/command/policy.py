"""How many people must want a rollout? `shoal rollout policy`"""

import argparse

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import print_result, printable
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.views import RolloutPolicy, parse

_EVERYWHERE = "*"
_PATH = "/api/v1/rollouts/policy"


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal rollout policy`."""
    policy = add_command(
        actions,
        "policy",
        summary="how many approvals a rollout needs",
        description="Show, or with --approvals change, how many people other than who starts a rollout must approve\n"
        "it. A higher number counts at once. A lower one waits until as many others have approved that, with\n"
        "--approve, as are needed until then. To stop a rollout never needs approval. Whoever may use the server's\n"
        "own command line changes it there alone: shoal-fleet policy.",
        example="shoal rollout policy --approvals 1",
        run=_run,
    )
    policy.add_argument("--approvals", type=int, metavar="N", help="from 0 (none) on")
    policy.add_argument("--approve", action="store_true", help="approve that it becomes N, as somebody else proposed")
    policy.add_argument("--project", default=_EVERYWHERE, help="of one project (default: of all; the greater counts)")


def _run(arguments: argparse.Namespace) -> None:
    if arguments.approve and arguments.approvals is None:
        raise UsageError("--approve: say with --approvals N what you approve")
    with Client() as client:
        if arguments.approvals is None:
            shown = client.get(_PATH, project=arguments.project)
        else:
            path = f"{_PATH}/approve" if arguments.approve else _PATH
            shown = client.post(path, {"approvals": arguments.approvals, "project": arguments.project})
    policy = parse(shown, RolloutPolicy, what="policy")
    print_result(shown, as_json=arguments.json, text=printable(_describe(policy)))


def _describe(policy: RolloutPolicy) -> str:
    where = "" if policy.project == _EVERYWHERE else f" in {policy.project}"
    text = f"a rollout{where} needs {_count(policy.approvals)}"
    waiting = policy.proposal
    if waiting is None:
        return text
    option = "" if policy.project == _EVERYWHERE else f" --project {policy.project}"
    return (
        f"{text}; {waiting.by} proposes {_count(waiting.approvals)}, which {len(waiting.approved_by)} of "
        f"{waiting.approvals_needed} approved: shoal rollout policy{option} --approvals {waiting.approvals} --approve"
    )


def _count(approvals: int) -> str:
    return f"{approvals or 'no'} approval{'' if approvals == 1 else 's'}"
