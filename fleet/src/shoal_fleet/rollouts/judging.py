"""Has a wave shown what its gate asks for?

Rules only, each from what is known of the wave to words with numbers. Another gate is another entry of `CHECKS`.
"""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal_fleet.rollouts.plan import Gate


class Tally(NamedTuple):
    """The devices of a wave, less those that were taken out of it."""

    total: int
    succeeded: int
    failed: int
    silent: int
    """Told longer ago than the gate waits for, and not ended."""
    reasons: Sequence[str] = ()
    """Of those that failed."""

    @property
    def pending(self) -> int:
        """Devices that may still come."""
        return self.total - self.succeeded - self.failed - self.silent


class Outcome(enum.Enum):
    """Of a look at a wave."""

    WAIT = "wait"
    PASSED = "passed"
    STOPPED = "stopped"


class Verdict(NamedTuple):
    """Of a look at a wave."""

    outcome: Outcome
    words: str


class Check(NamedTuple):
    """One thing that a gate asks for: how it is now, and whether it can't be held any more."""

    words: str
    is_broken: bool


def judge_wave(tally: Tally, gate: Gate) -> Verdict:
    """Stop as soon as the gate can't be held any more, pass once all devices have ended or are silent.

    Of several things that are wrong the first one is said: failures are also successes that are missing.
    """
    checks = [check(tally, gate) for check in CHECKS]
    broken = next((check for check in checks if check.is_broken), None)
    if broken is not None:
        return Verdict(Outcome.STOPPED, broken.words)
    if tally.pending:
        return Verdict(Outcome.WAIT, f"{tally.succeeded} of {_devices(tally.total)} done, {tally.pending} to come")
    return Verdict(Outcome.PASSED, "; ".join(check.words for check in checks if check.words) or "no device")


def _failures(tally: Tally, gate: Gate) -> Check:
    if tally.failed <= gate.max_failed:
        return Check(f"{tally.failed} failed, at most {gate.max_failed}" if tally.failed else "", False)
    return Check(
        f"{tally.failed} of {_devices(tally.total)} failed, at most {gate.max_failed}{_most_often(tally.reasons)}", True
    )


def _success(tally: Tally, gate: Gate) -> Check:
    """Of those that aren't silent: whether enough can still succeed."""
    heard = tally.total - tally.silent
    words = f"{tally.succeeded} of {_devices(heard)} succeeded"
    possible = tally.succeeded + tally.pending
    if heard and possible < gate.min_success * heard:
        return Check(f"{words}, at least {gate.min_success:.0%}", True)
    return Check(words if tally.total else "", False)


def _silence(tally: Tally, gate: Gate) -> Check:
    if not tally.silent:
        return Check("", False)
    words = (
        f"{tally.silent} of {_devices(tally.total)} silent for {_time(gate.silence_s)}, at most {gate.max_silent:.0%}"
    )
    return Check(words, tally.silent > gate.max_silent * tally.total)


CHECKS: Sequence[Callable[[Tally, Gate], Check]] = (_failures, _success, _silence)


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"


def _time(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s"


def _most_often(reasons: Sequence[str]) -> str:
    """The reason that was given most often, and how often."""
    if not reasons:
        return ""
    counts = sorted({(reasons.count(reason), reason) for reason in reasons}, reverse=True)
    count, reason = counts[0]
    return f" ({count} times: {reason[:200]})" if count > 1 else f" ({reason[:200]})"
