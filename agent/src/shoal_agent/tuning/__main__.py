"""What does the daemon start to tune a release? `python -m shoal_agent.tuning --fd N`; not for people to run.

Niced, and the first to go when memory runs short: whatever serves comes before a measurement. The content keys come
over the channel and stay in this process's memory.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from shoal_worker.channel import Channel, ChannelClosed, ChannelError
from shoal_worker.process import die_with_parent, disable_core_dumps, offer_to_oom_killer
from shoal_worker.sandbox import enter_front

from shoal_agent import tuning_messages as messages
from shoal_agent.board import read_kind
from shoal_agent.cpu_budget import budget, read_processors
from shoal_agent.errors import AgentError
from shoal_agent.files import DiskFiles, Files
from shoal_agent.front.loading import Stored
from shoal_agent.slots import STORE
from shoal_agent.swap import keep_out_of_swap
from shoal_agent.tuned import Limits
from shoal_agent.tuning.errors import TuningFailed
from shoal_agent.tuning.material import Material, open_release
from shoal_agent.tuning.options import BATCHES, TuneOptions
from shoal_agent.tuning.program import tune_material
from shoal_agent.tuning.rows import make_row

NICE = 15
OOM_POINTS = 300
"""By how much sooner than the daemon this is killed when memory runs short: before fronts and their workers."""
MAX_REASON = 2000

_LOG = logging.getLogger(__name__)


def main() -> int:
    """Tune one release, until that is done or the daemon's channel ends."""
    parser = argparse.ArgumentParser(description="Tunes a release; started by the daemon.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the channel to the daemon")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process id of the daemon")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; ending is the daemon's to decide
    die_with_parent(arguments.parent)
    offer_to_oom_killer(OOM_POINTS)
    disable_core_dumps()
    enter_front()
    keep_out_of_swap()  # where that can't be, the front has said so
    os.nice(NICE)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    channel = Channel.from_fd(arguments.fd)
    with contextlib.suppress(ChannelClosed):
        channel.greet(role="tuning")
        frame, _ = channel.receive(None)
        order = messages.parse_from_daemon(frame)
        threading.Thread(target=_end_with, args=(channel,), name="watch", daemon=True).start()
        for told in _tune(order, files=DiskFiles()):
            channel.send(messages.as_frame(told))
    channel.close()
    return 0


def _end_with(channel: Channel) -> None:
    """The daemon has nothing more to say: when it closes the channel, this ends in the midst of a measurement.

    The workers end with this process (see `shoal_worker.process`).
    """
    with contextlib.suppress(ChannelError):
        channel.receive(None)
    os._exit(0)


def _tune(order: messages.Tune, *, files: Files) -> Iterator[messages.FromTuning]:
    stored = Stored(held=order.held, store=Path(order.state) / STORE, content_keys=order.content_keys)
    try:
        materials = open_release(stored, files=files)
    except TuningFailed as error:
        yield messages.NotFound(order.held.reference.release, str(error)[:MAX_REASON])
        materials = []
    for material in materials:
        try:
            yield _tune_model(material, order, files=files)
        except (AgentError, OSError) as error:
            yield messages.NotFound(material.model.name, str(error)[:MAX_REASON])
    yield messages.Done()


def _tune_model(material: Material, order: messages.Tune, *, files: Files) -> messages.FromTuning:
    configuration = order.configuration
    options = TuneOptions(
        model=material.model.name,
        state=Path(order.state),
        release_folder=None,
        objective=configuration.tuning.objective,
        limits=Limits(),
        budget_s=configuration.tuning.budget_s,
        threads=(),
        batches=BATCHES,
        is_fresh=False,
    )
    outcome = tune_material(
        material, options, configuration=configuration, files=files, known=order.held.known, tell=_LOG.info
    )
    chosen = outcome.verdict.choice.candidate
    if chosen is None:
        return messages.NotFound(material.model.name, outcome.verdict.choice.why[:MAX_REASON])
    board = read_kind(processors=budget(read_processors(), configured=configuration.threads))
    reference = order.held.reference
    return messages.Found(
        make_row(outcome.verdict, chosen=chosen, reference=reference, board=board, is_confirmed=outcome.is_confirmed)
    )


if __name__ == "__main__":
    sys.exit(main())
