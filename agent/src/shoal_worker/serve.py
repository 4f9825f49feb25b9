"""What does a worker do from its start to its end?

It binds itself to its parent, says hello, shuts itself in, loads the one model that the front sends, and answers until
the channel ends.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from . import sandbox
from .channel import BadMessage, Channel, ChannelClosed, ChannelError
from .engines import Engine, load_engine
from .errors import EngineMissing, ModelRefused
from .memory import read_sealed, seal_bytes
from .messages import MAX_TEXT, MODEL_FD, Load, Loaded, Refused, encode_message, parse_message
from .process import die_with_parent, disable_core_dumps, lock_memory, offer_to_oom_killer

OK = 0
PROTOCOL_BROKEN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the worker and return its exit code: 0 when the front is done with it."""
    options = _parse_arguments(arguments)
    die_with_parent(options.parent)
    offer_to_oom_killer(options.oom_points)
    disable_core_dumps()
    if options.lock_memory:
        lock_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches all: the front drains first
    os.chdir("/")  # a model must not find files beside it
    os.nice(options.nice)
    channel = Channel.from_fd(options.fd)
    try:
        channel.greet(role="worker")
        engine = _load(channel)
        if engine is not None:
            # Here, as it needs NumPy: without it, loading the engine has already said so over the channel.
            from .model_server import ModelServer

            ModelServer(channel, engine=engine, cancels=options.cancel_fd, on_gone=_end).serve()
    except ChannelClosed:
        pass
    except ChannelError as error:
        print(f"shoal worker {os.getpid()}: {error}", file=sys.stderr)
        return PROTOCOL_BROKEN
    return OK


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="shoal_worker", description="Run one model for a front of shoal-agent.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the control channel")
    parser.add_argument(
        "--cancel-fd", type=int, required=True, help="descriptor of the pipe by which runs are cancelled"
    )
    parser.add_argument("--parent", type=int, required=True, help="process id of the front")
    parser.add_argument("--oom-points", type=int, default=0, help="how much sooner than the front to run out of memory")
    parser.add_argument("--lock-memory", action="store_true", help="keep all memory out of swap")
    parser.add_argument("--nice", type=int, default=0, help="how much less urgent than the front, 0 to 19")
    return parser.parse_args(arguments)


def _load(channel: Channel) -> Engine | None:
    """Load what the front sends and report it; None when the model was refused."""
    message, fds = channel.receive(None)
    try:
        request = parse_message(message)
        if not isinstance(request, Load) or not fds:
            raise BadMessage("a front sends load with descriptors of the model's files first; found another message")
        started = time.perf_counter()
        files = [read_sealed(fd) for fd in fds]
        if request.path:
            fds.append(os.dup2(fds[0], MODEL_FD, inheritable=False))
        confinement = sandbox.enter(accelerators=sandbox.needs_accelerators(request.engine, request.device))
        engine = load_engine(request, files=files)
    except (EngineMissing, ModelRefused) as error:
        channel.send(encode_message(_refusal(error)))
        return None
    finally:
        for fd in fds:
            os.close(fd)
    loaded = Loaded(
        engine=request.engine,
        engine_version=engine.version,
        placement=engine.placement,
        devices=engine.devices,
        inputs=engine.inputs,
        outputs=engine.outputs,
        load_ms=(time.perf_counter() - started) * 1000,
        rss_bytes=_resident_bytes(),
        sandbox=confinement.parts,
        sandbox_gaps=confinement.gaps,
    )
    plan_fds = [] if engine.plan is None else [seal_bytes(engine.plan)]
    try:
        channel.send(encode_message(loaded), fds=plan_fds)
    finally:
        for fd in plan_fds:
            os.close(fd)
    return engine


def _end() -> None:
    """The front has gone, whatever the engine is doing."""
    os._exit(OK)


def _refusal(error: Union[EngineMissing, ModelRefused]) -> Refused:
    kind = "installation" if isinstance(error, EngineMissing) else "model"
    return Refused(kind=kind, reason=str(error)[:MAX_TEXT])


def _resident_bytes() -> int:
    """This process's resident memory (proc(5), statm, second field)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
