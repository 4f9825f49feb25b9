"""A tuning child that speaks the real channel, but whose verdicts are made up.

Each start leaves a line with its process id in `tuning-starts` of the state folder. `--behaviour` makes it fail: `dies`
ends it before there is a verdict, `finds-nothing` says so, `endless` never comes to an end.
"""

import argparse
import os
import sys
from pathlib import Path

from shoal_agent import tuning_messages as messages
from shoal_agent.board import read_kind
from shoal_agent.files import DiskFiles
from shoal_agent.tuned import FOLDER, SERVING, ServingChoice, ServingChoices
from shoal_wire.encoding import encode
from shoal_wire.messages import Tuned
from shoal_wire.tuning import Candidate, MeasuredCandidate
from shoal_worker.channel import Channel, ChannelClosed
from shoal_worker.process import die_with_parent

CHOSEN = Candidate(variant="only", engine="chosen", threads=1)
FILES = ("f" * 64,)


def serve_by(state: Path, candidate: Candidate, *, model: str) -> None:
    """What a tuning writes last."""
    choice = ServingChoice(candidate=candidate, files=FILES, engine_version="1", key="0" * 64)
    DiskFiles().write(state / FOLDER / SERVING, encode(ServingChoices(models={model: choice})))


def make_row(order: messages.Tune) -> Tuned:
    measured = MeasuredCandidate(
        candidate=CHOSEN, engine_version="1", p50_ms=2.0, p95_ms=3.0, answers_per_s=400.0, peak_bytes=1, load_ms=5.0
    )
    return Tuned(
        at=1.0,
        board=read_kind(processors=1),
        model=order.held.reference.release,
        reference=order.held.reference,
        objective="latency",
        choice=CHOSEN,
        files=FILES,
        measured=(measured,),
        is_settled=True,
    )


def tune(order: messages.Tune, channel: Channel, *, behaviour: str) -> None:
    assert order.content_keys, "a release without content keys"
    seen = f"{sys.argv} {dict(os.environ)}"
    assert not any(key in seen for key in order.content_keys.values()), "a content key is in plain sight"
    with (Path(order.state) / "tuning-starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    model = order.held.reference.release
    if behaviour == "dies":
        os.abort()
    if behaviour == "endless":
        channel.receive(None)
    if behaviour == "finds-nothing":
        channel.send(messages.as_frame(messages.NotFound(model, "fake: none is right")))
    else:
        serve_by(Path(order.state), CHOSEN, model=model)
        channel.send(messages.as_frame(messages.Found(make_row(order))))
    channel.send(messages.as_frame(messages.Done()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--behaviour", default="found")
    parser.add_argument("--fd", type=int)
    parser.add_argument("--parent", type=int)
    options = parser.parse_args()
    die_with_parent(options.parent)
    channel = Channel.from_fd(options.fd)
    try:
        channel.greet(role="tuning")
        tune(messages.parse_from_daemon(channel.receive(None)[0]), channel, behaviour=options.behaviour)
    except ChannelClosed:
        sys.exit(0)


if __name__ == "__main__":
    main()
