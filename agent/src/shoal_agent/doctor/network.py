"""Does this board reach its fleet, and if not, at which step does it fail?"""

from collections.abc import Iterator, Mapping

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Checked, Finding, Health
from shoal_agent.doctor.reaching import Reached, Step

ADVICE: Mapping[Step, str] = {
    Step.KEYS: "see the lines on keys and certificate",
    Step.NAME: "look at the network cable or radio, and at the name server (resolvectl status)",
    Step.CONNECTION: "look at the network, firewalls on the way, and whether the fleet's server runs",
    Step.TLS: "look at the clock; else another server answers there, or the fleet's authority was replaced while this "
    "board was away (shoal-agent renew)",
    Step.ANSWER: "ask at the fleet whether this device is held or revoked (shoal device show); then see its log",
}
"""What helps, by the step that failed."""

_WORDS: Mapping[Step, str] = {
    Step.KEYS: "this board's own keys can't be used",
    Step.NAME: "its name isn't known here",
    Step.CONNECTION: "no connection",
    Step.TLS: "it isn't the fleet that this board trusts, or speaks no TLS 1.3",
    Step.ANSWER: "it doesn't take this board",
}


def check_network(board: Board) -> Iterator[Checked]:
    """One line for each place that the agent connects to."""
    if board.is_quick:
        return
    if not board.reached:
        words = "this board isn't enrolled, or this user may not see where: there is no fleet to reach"
        yield Checked(check="network", health=Health.UNKNOWN, words=words, advice="")
    for reached in board.reached:
        finding = judge_reached(reached)
        name = f"network, {reached.place.what}"
        yield Checked(check=name, health=finding.health, words=finding.words, advice=finding.advice)


def judge_reached(reached: Reached) -> Finding:
    """How far it went, in words."""
    if reached.failed is None:
        return Finding(Health.GOOD, f"{reached.place}: {reached.told}")
    words = f"{reached.place}: {_WORDS[reached.failed]}: {reached.error}"
    return Finding(Health.BAD, words, ADVICE[reached.failed])
