"""Which board is this, was it enrolled as that, and is it as its profile says?"""

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Finding, Health, worst
from shoal_agent.doctor.reading import read_field

SMALLEST_VISIBLE_PART = 0.75
"""Firmware, GPU and kernel keep some of the memory for themselves."""


def check_profile(board: Board) -> Finding:
    """What was detected, beside what the board was enrolled as and what its profile promises."""
    findings = [_judge_enrolment(board), *_judge_promises(board)]
    findings += [
        Finding(Health.WARNING, fault, "correct the file, or install the agent's package again")
        for fault in board.profiles.faults
    ]
    return worst(findings)


def _judge_enrolment(board: Board) -> Finding:
    detection = board.detection
    found = f"{detection.profile}: {detection.reason}"
    if board.device is None:
        return Finding(Health.GOOD, f"it looks like {found}")
    enrolled = board.device.profile
    if enrolled.replace("_", "-") == detection.profile:
        return Finding(Health.GOOD, f"it was enrolled as {found}")
    advice = "if it was another board's card, enrol anew; else it does no harm"
    return Finding(Health.WARNING, f"it was enrolled as {enrolled}, and looks like {found}", advice)


def _judge_promises(board: Board) -> list[Finding]:
    profile, traits = board.profile, board.traits
    if profile is None:
        return []
    findings = []
    missing = sorted(set(profile.instructions) - traits.instructions) if traits.instructions else []
    if missing:
        words = f"the processor lacks {', '.join(missing)}, which {profile.name} promises"
        findings.append(Finding(Health.WARNING, words, "tell Shoal's developers: the profile is wrong"))
    total_kib = read_field(board.proc / "meminfo", "MemTotal:")
    if total_kib is not None and profile.memory_bytes:
        visible = total_kib * 1024
        if not any(SMALLEST_VISIBLE_PART * size <= visible <= size for size in profile.memory_bytes):
            words = f"it has {visible / 1e6:.0f} MB of memory, a size that {profile.name} doesn't list"
            findings.append(Finding(Health.WARNING, words, "look at the firmware's settings for memory"))
    return findings
