"""How is the updater started?

`python -m shoal_agent.updater --fd N --state DIR [--refresh] [--all-variants] [--engines FORMAT:ENGINE,… …]` by the
daemon, which is at the other end of the socket N. Exit codes: 0 the journal is terminal or there is nothing to do; 75
try later; 1 anything else, after which the daemon starts it again and the journal's count of starts ends what doesn't
end by itself.
"""

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from shoal_worker.channel import Channel, ChannelError
from shoal_worker.process import die_with_parent, disable_core_dumps

from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles, Files
from shoal_agent.own_trees import read_launch
from shoal_agent.tuned import ServingChoices, load_choices
from shoal_agent.updater.errors import BrokenInstallation, TryLater
from shoal_agent.updater.fetch import Patience
from shoal_agent.updater.planning import Board
from shoal_agent.updater.run import refresh, run
from shoal_agent.updater.tools import make_tools

DONE = 0
FAILED = 1
TRY_LATER = 75
"""EX_TEMPFAIL of sysexits.h."""


def main(arguments: Sequence[str], *, files: Files) -> int:
    """Run one update to its end on the disk of `files`; returns the exit code."""
    options = _parse(arguments)
    die_with_parent(options.parent)
    disable_core_dumps()
    channel = Channel.from_fd(options.fd)
    try:
        channel.greet(role="updater")
        tools = make_tools(
            options.state,
            files=files,
            channel=channel,
            board=read_board(options, files=files),
            launch=read_launch(os.environ),
            patience=Patience(),
        )
        (refresh if options.refresh else run)(tools)
    except TryLater as error:
        return _say(error, TRY_LATER)
    except (BrokenInstallation, ChannelError) as error:
        return _say(error, FAILED)
    finally:
        channel.close()
    return DONE


def read_board(options: argparse.Namespace, *, files: Files) -> Board:
    """What this board has."""
    return Board(
        engines=dict(options.engines),
        architecture=platform.machine(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        agent_version=importlib.metadata.version("shoal-agent"),
        choices=_read_choices(options.state, files=files),
        all_variants=options.all_variants,
    )


def _read_choices(state: Path, *, files: Files) -> ServingChoices:
    """What tuning chose; nothing where that can't be read, since an update doesn't depend on it."""
    try:
        return load_choices(files, state)
    except (StateDamaged, OSError) as error:
        print(f"updater: {error}; goes on as if nothing had been tuned", file=sys.stderr)
        return ServingChoices()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="shoal_agent.updater")
    parser.add_argument("--fd", type=int, required=True, help="socket to the daemon")
    parser.add_argument("--state", type=Path, required=True, help="the agent's state folder")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process to end with")
    parser.add_argument("--refresh", action="store_true", help="only renew metadata and assignment keys")
    parser.add_argument("--all-variants", action="store_true", help="fetch what tuning can choose from as well")
    parser.add_argument(
        "--engines",
        nargs="*",
        type=_engines,
        default=[],
        metavar="FORMAT:ENGINE,…",
        help="engines that may run models of a format here",
    )
    return parser.parse_args(arguments)


def _engines(text: str) -> tuple[str, tuple[str, ...]]:
    model_format, _, engines = text.partition(":")
    return model_format, tuple(filter(None, engines.split(",")))


def _say(error: Exception, code: int) -> int:
    print(f"updater: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], files=DiskFiles()))
