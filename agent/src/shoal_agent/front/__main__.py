"""What does the daemon start as a front? `python -m shoal_agent.front --fd N [--check]`; not for people to run."""

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TypeVar

from shoal_worker.channel import Channel, ChannelClosed
from shoal_worker.process import die_with_parent, disable_core_dumps, offer_to_oom_killer
from shoal_worker.sandbox import enter_front

from shoal_agent import front_messages as messages
from shoal_agent.front.checking import CHECK_NICE, check_candidate
from shoal_agent.front.loading import Stored
from shoal_agent.front.model_workers import Death
from shoal_agent.front.serving import ServingFront
from shoal_agent.swap import keep_out_of_swap

_Order = TypeVar("_Order", messages.Configure, messages.Check)

OOM_POINTS = 100
"""By how much sooner than the daemon a front is killed when memory runs short; its workers go before it."""

SWITCH_INTERVAL_S = 0.0005
"""How long one thread computes in Python while another one waits to. Python's own 5 ms would be lost at each step of an
inference while a release is opened or another item is prepared."""


def main() -> int:
    """Serve, or check one candidate, until the daemon's channel ends."""
    parser = argparse.ArgumentParser(description="Serves models; started by the daemon.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the channel to the daemon")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process id of the daemon")
    parser.add_argument("--check", action="store_true", help="run one candidate's golden cases, niced, and end")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; ending is the daemon's to decide
    die_with_parent(arguments.parent)
    offer_to_oom_killer(OOM_POINTS)
    disable_core_dumps()
    enter_front()
    swap_gap = keep_out_of_swap()
    channel = Channel.from_fd(arguments.fd)
    with contextlib.suppress(ChannelClosed):
        channel.greet(role="checking front" if arguments.check else "front")
        if arguments.check:
            os.nice(CHECK_NICE)
            _check(channel)
        else:
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            ServingFront(channel, warnings={"memory-may-be-swapped": swap_gap} if swap_gap else {}).run()
    channel.close()
    return 0


def _check(channel: Channel) -> None:
    configuration = _receive(channel, messages.Configure)
    order = _receive(channel, messages.Check)
    stored = Stored(held=order.held, store=Path(order.store), content_keys=order.content_keys, tuned=order.tuned)
    channel.send(messages.as_frame(check_candidate(stored, configuration, watcher=_Reporter(channel))))


class _Reporter:
    """Tells the daemon what becomes of the candidate's workers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def died(self, death: Death) -> None:
        """See `Watcher`."""
        self.noticed("candidate-worker-died", f"{death.engine} {death.engine_version}: {death.reason}")

    def noticed(self, name: str, detail: str) -> None:
        """See `Watcher`."""
        self._channel.send(messages.as_frame(messages.Notice(name, detail)))

    def stopped(self, reason: str) -> None:
        """See `Watcher`."""
        self.noticed("candidate-stopped", reason)


def _receive(channel: Channel, kind: type[_Order]) -> _Order:
    frame, _ = channel.receive(None)
    message = messages.parse_from_daemon(frame)
    if not isinstance(message, kind):
        raise ValueError(f"expected {kind.__name__} from the daemon, found {type(message).__name__}")
    return message


if __name__ == "__main__":
    sys.exit(main())
