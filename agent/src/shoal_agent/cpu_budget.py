"""How many processor threads may all workers together use, and how many does each get?

A rule over the processors that this process may run on (sched_getaffinity(2)) and the time that its control groups
allow (cpu.max). A thread more than that doesn't compute faster: the kernel stops the whole group for the rest of each
period, which answers pay for with their slowest percent.
"""

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

from shoal_agent import cgroup


class Processors(NamedTuple):
    """What the kernel lets this process have. `quotas` are in processors, of each group that has one."""

    allowed: int
    quotas: tuple[float, ...] = ()


def read_processors() -> Processors:
    """What holds for this process at this moment."""
    return Processors(len(os.sched_getaffinity(0)), cgroup.cpu_quotas(cgroup.own_path()))


def budget(processors: Processors, *, configured: int) -> int:
    """Threads for all workers together, at least 1.

    Without a configured number as many as never have to wait for a quota. A configured one may round a broken quota up,
    but not go beyond what there is.
    """
    available = min((float(processors.allowed), *processors.quotas))
    if configured:
        return max(1, min(configured, math.ceil(available)))
    return max(1, math.floor(available))


def share(threads: int, *, wanted: Sequence[int]) -> tuple[int, ...]:
    """How many threads each of several workers gets, of a budget of `threads`; at least 1.

    `wanted` is 0 for an equal part of what the others leave. Where there are fewer threads than workers they take
    turns, as the kernel does it.
    """
    set_aside = sum(wanted)
    equal = sum(1 for number in wanted if not number)
    left = max(0, threads - set_aside)
    shares = []
    for number in wanted:
        if number:
            shares.append(max(1, min(number, threads)))
            continue
        part = max(1, math.ceil(left / equal))
        shares.append(part)
        left, equal = max(0, left - part), equal - 1
    return tuple(shares)
