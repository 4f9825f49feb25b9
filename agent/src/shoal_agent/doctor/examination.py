"""Which checks are there, and what do they say of a board?"""

from collections.abc import Callable, Mapping, Sequence

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.disk import check_disk, check_wear
from shoal_agent.doctor.engines import check_engines
from shoal_agent.doctor.findings import Checked, Finding, Health
from shoal_agent.doctor.heat import check_heat
from shoal_agent.doctor.memory import check_memory
from shoal_agent.doctor.network import check_network
from shoal_agent.doctor.profile import check_profile
from shoal_agent.doctor.protection import check_core_dumps, check_keys, check_sandbox, check_state, check_swap
from shoal_agent.doctor.service import check_control_groups, check_unit
from shoal_agent.doctor.supply import check_supply
from shoal_agent.doctor.validity import check_certificate, check_clock, check_configuration

CHECKS: Mapping[str, Callable[[Board], Finding]] = {
    "board": check_profile,
    "unit": check_unit,
    "configuration": check_configuration,
    "state folder": check_state,
    "keys": check_keys,
    "certificate": check_certificate,
    "clock": check_clock,
    "disk": check_disk,
    "disk wear": check_wear,
    "memory": check_memory,
    "control groups": check_control_groups,
    "supply": check_supply,
    "heat": check_heat,
    "swap": check_swap,
    "core dumps": check_core_dumps,
    "worker sandbox": check_sandbox,
}
"""Each looks at files of the kernel and of the state folder only."""


def examine(board: Board) -> tuple[Checked, ...]:
    """All checks, in order: those of the table, then engines and the ways to the fleet, as far as they were tried."""
    results = [_run(name, check, board) for name, check in CHECKS.items()]
    return (*results, *check_engines(board), *check_network(board))


def is_sound(results: Sequence[Checked]) -> bool:
    """Whether nothing is bad. Warnings don't count: a board can serve with them."""
    return all(result.health is not Health.BAD for result in results)


def write_report(results: Sequence[Checked]) -> str:
    """The results as lines for a person."""
    lines = []
    for result in results:
        lines.append(f"{result.health:<8} {result.check}: {result.words}")
        if result.advice:
            lines.append(f"{'':<8} → {result.advice}")
    return "\n".join(lines)


def _run(name: str, check: Callable[[Board], Finding], board: Board) -> Checked:
    """One that isn't allowed to look says so."""
    try:
        finding = check(board)
    except PermissionError as error:
        words = f"{error.filename} can't be read by this user"
        finding = Finding(Health.UNKNOWN, words, "run it as the agent's user, or as root")
    return Checked(check=name, health=finding.health, words=finding.words, advice=finding.advice)
