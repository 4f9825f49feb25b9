"""Whose turn is it with a worker, and in which memory?

A worker goes from one run to the next at once when the next one is there already. So each run takes a lane, which is
memory on both sides, sends itself in its lane and stands in line; only the first in line hears the worker. It runs in
the order in which they were sent, so what it runs is the first in line, and nobody else is to blame when it dies.
"""

import threading
from collections import deque
from typing import NamedTuple

from shoal_worker.channel import Channel
from shoal_worker.messages import LANES
from shoal_worker.tensors import TensorReader, TensorWriter

from shoal_agent.front.worker_process import WorkerEnded


class Lane(NamedTuple):
    """Memory for one run at a time."""

    number: int
    inputs: TensorWriter
    outputs: TensorReader

    def close(self) -> None:
        """Give the memory back."""
        self.inputs.close()
        self.outputs.close()


class RunLine:
    """The lanes of one worker, and the runs in them that have no reply yet. Threads share it."""

    def __init__(self, channel: Channel, *, pid: int) -> None:
        self.lanes = tuple(Lane(number, TensorWriter(channel, lane=number), TensorReader()) for number in range(LANES))
        self._free = list(reversed(self.lanes))  # the last one is taken first: one run at a time needs one lane
        self._line: deque[int] = deque()
        self._last_id = 0
        self._pid = pid
        self._is_closing = False
        self._fate = ""
        self._changed = threading.Condition()

    @property
    def fate(self) -> str:
        """Why the worker can't run any more; empty while it can."""
        return self._fate

    def is_idle(self) -> bool:
        """Whether no run is in a lane."""
        with self._changed:
            return self._is_idle()

    def take_lane(self) -> Lane:
        """A lane of one's own; waits for one.

        Raises:
            WorkerEnded: the worker can't run any more, or is being closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._fate or self._is_closing)
            if self._fate or self._is_closing:
                raise WorkerEnded(self._fate or f"worker {self._pid} was closed")
            return self._free.pop()

    def give_lane(self, lane: Lane) -> None:
        """The run in the lane is over, and nobody looks into its memory any more."""
        with self._changed:
            if self._fate:
                lane.close()
            self._free.append(lane)
            self._changed.notify_all()

    def join(self) -> int:
        """Stand in line; returns the id of the run. Runs must be sent in the order of their ids."""
        with self._changed:
            self._last_id += 1
            self._line.append(self._last_id)
            return self._last_id

    def await_turn(self, run_id: int) -> None:
        """Return once the run is the first in line.

        Raises:
            WorkerEnded: the worker can't run any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._fate or self._line[0] == run_id)
            if self._fate:
                raise WorkerEnded(self._fate)

    def leave(self, run_id: int) -> None:
        """Leave the line, wherever one stands in it."""
        with self._changed:
            if run_id in self._line:
                self._line.remove(run_id)
            self._changed.notify_all()

    def end(self, fate: str) -> bool:
        """The worker can't run any more: whoever waits gets WorkerEnded, and the memory is given back.

        Returns whether nobody had said so before.
        """
        with self._changed:
            if self._fate:
                return False
            self._fate = fate
            for lane in self._free:
                lane.close()
            self._changed.notify_all()
            return True

    def close(self, *, drain_s: float | None) -> bool:
        """Admit no more runs, and wait for those in the lanes to end; returns whether they have in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            return self._changed.wait_for(self._is_idle, timeout=drain_s)

    def _is_idle(self) -> bool:
        return len(self._free) == len(self.lanes)
