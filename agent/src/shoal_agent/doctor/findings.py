"""What does a check come to?"""

import enum
from typing import NamedTuple

import msgspec


class Health(enum.StrEnum):
    """What a check came to."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """What was found, and what to do about it where that is needed."""

    health: Health
    words: str
    advice: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    check: str
    health: Health
    words: str
    advice: str


_SEVERITY = (Health.UNKNOWN, Health.GOOD, Health.WARNING, Health.BAD)


def worst(findings: list[Finding]) -> Finding:
    """Several findings as one: the health and advice of the worst, the words of all that are as bad."""
    health = max((finding.health for finding in findings), key=_SEVERITY.index)
    told = [finding for finding in findings if finding.health is health]
    advices = dict.fromkeys(finding.advice for finding in told if finding.advice)
    return Finding(health, "; ".join(finding.words for finding in told), "; ".join(advices))
