"""What did boards find out about the engines for a model, and how many agree? `shoal tuning …`"""

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from shoal_fleet.command.client import Client
from shoal_fleet.command.output import Columns, print_table
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.views import Verdict, describe_board, parse

_PAGE = 1000


class Finding(NamedTuple):
    """One choice that boards of a kind made for a model."""

    newest: Verdict
    boards: int
    is_settled: bool
    """At least one of them measured until hardly anything would have changed."""


_COLUMNS: Columns[Finding] = {
    "MODEL": lambda finding: finding.newest.model,
    "BOARD": lambda finding: describe_board(finding.newest.board),
    "FOR": lambda finding: finding.newest.objective,
    "CHOICE": lambda finding: finding.newest.choice,
    "P50 MS": lambda finding: f"{_p50_ms(finding.newest):.2f}",
    "BOARDS": lambda finding: finding.boards,
    "STATE": lambda finding: _state(finding),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal tuning`."""
    actions = add_group(commands, "tuning", summary="what boards found out about engines", example="shoal tuning list")
    listing = add_command(
        actions,
        "list",
        summary="choices by model and kind of board",
        description="What boards chose, by model and kind of board. A new board of that kind is told, unless the "
        "timings are of an emulated one. What `shoal-agent tune` finds stays on "
        "its board. With --json every verdict that stands, with its figures.",
        example="shoal tuning list --model note-events",
        run=_list,
    )
    listing.add_argument("--model", help="only of this model")


def gather(verdicts: Iterable[Verdict]) -> list[Finding]:
    """The choices in the verdicts, each with the number of devices that made it, by model and kind of board."""
    alike: dict[object, list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.id):
        alike.setdefault((verdict.model, verdict.board, verdict.objective, verdict.choice), []).append(verdict)
    findings = [
        Finding(
            newest=of_choice[-1],
            boards=len({verdict.device for verdict in of_choice}),
            is_settled=any(verdict.is_settled and not verdict.is_confirmed for verdict in of_choice),
        )
        for of_choice in alike.values()
    ]
    return sorted(findings, key=_place)


def _list(arguments: argparse.Namespace) -> None:
    query = {} if arguments.model is None else {"model": arguments.model}
    with Client() as client:
        shown, verdicts = _fetch_all(client, query)
    empty = "no verdict yet: boards tune after an install, unless their agent.toml has at_install = false in [tuning]"
    print_table(shown, gather(verdicts), _COLUMNS, as_json=arguments.json, empty=empty)


def _fetch_all(client: Client, query: dict[str, str]) -> tuple[list[object], list[Verdict]]:
    shown: list[object] = []
    verdicts: list[Verdict] = []
    while True:
        after_id = verdicts[-1].id if verdicts else 0
        page = client.get("/api/v1/tuning", **query, after_id=after_id, limit=_PAGE)
        found = parse(page, list[Verdict], what="verdicts of tuning")
        shown += page
        verdicts += found
        if len(found) < _PAGE:
            return shown, verdicts


def _p50_ms(verdict: Verdict) -> float:
    return next((one.p50_ms for one in verdict.measured if one.candidate == verdict.choice), float("nan"))


def _state(finding: Finding) -> str:
    if finding.newest.board.is_emulated:
        return "emulated"
    return "settled" if finding.is_settled else "unsettled"


def _place(finding: Finding) -> tuple[object, ...]:
    newest = finding.newest
    return newest.model, describe_board(newest.board), newest.objective, -finding.boards, -newest.id
