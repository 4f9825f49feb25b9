"""Is there memory for models?"""

from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Finding, Health
from shoal_agent.doctor.reading import read_field

SMALLEST_BYTES = 400_000_000
"""A board of 512 MB shows about so much to Linux, the rest being its GPU's and firmware's."""
LOW_PART = 0.1


def check_memory(board: Board) -> Finding:
    """How much is left, and whether it ran out since the start."""
    total_kib = read_field(board.proc / "meminfo", "MemTotal:")
    available_kib = read_field(board.proc / "meminfo", "MemAvailable:")
    if total_kib is None or available_kib is None:
        return Finding(Health.UNKNOWN, "the kernel doesn't tell how much there is")
    total, available = total_kib * 1024, available_kib * 1024
    words = f"{available / 1e6:.0f} of {total / 1e6:.0f} MB are available"
    kills = read_field(board.proc / "vmstat", "oom_kill") or 0
    if kills:
        advice = "serve fewer or smaller models, or spares = 0 in agent.toml"
        return Finding(Health.WARNING, f"{words}; the kernel ended {kills} processes for want of memory", advice)
    if available < LOW_PART * total:
        return Finding(Health.WARNING, words, "end what else runs on this board, or serve smaller models")
    if total < SMALLEST_BYTES:
        return Finding(Health.WARNING, f"{words}: less than any board that Shoal knows", "serve one small model only")
    return Finding(Health.GOOD, words)
