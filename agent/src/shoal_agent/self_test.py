"""Can this agent run on this board, with the state folder that is there? Asked of a tree before it is put on trial.

`<tree>/bin/python3 -I -B -m shoal_agent.self_test --state DIR [--config FILE]`, beside the agent that runs. Nothing is
written. It ends with 0 and one line of JSON, or with another code and the reason on standard error.
"""

import argparse
import importlib
import os
import pkgutil
import platform
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import msgspec
from shoal_worker.process import die_with_parent

import shoal_agent
from shoal_agent.configuration import Configuration, load_configuration
from shoal_agent.engine_table import runnable_engines
from shoal_agent.files import DiskFiles
from shoal_agent.own_trees import STATE_FORMAT
from shoal_agent.state import (
    CONFIGURATION,
    OUTBOX,
    load_device,
    load_journal,
    load_slots,
    load_trust_report,
    load_trusted_keys,
)

_ENDS_A_PROCESS = "__main__"


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent that can run here says of itself."""

    version: str
    python: str
    machine: str
    state_format: int
    engines: dict[str, tuple[str, ...]]
    """That may run models here, by format."""


def main(arguments: Sequence[str]) -> int:
    """Returns 0; any error ends the process with its traceback, which is what whoever asked passes on."""
    parser = argparse.ArgumentParser(prog="shoal_agent.self_test")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process to end with")
    options = parser.parse_args(arguments)
    die_with_parent(options.parent)
    import_all()
    configuration = read_state(options.state, configuration=options.config)
    passed = Passed(
        version=version("shoal-agent"),
        python="{}.{}".format(*sys.version_info[:2]),
        machine=platform.machine(),
        state_format=STATE_FORMAT,
        engines=runnable_engines(interpreters=configuration.interpreters, allowed=configuration.engines),
    )
    print(msgspec.json.encode(passed).decode())
    return 0


def import_all() -> None:
    """Import every module of the agent: one that lacks something shows it here."""
    for module in pkgutil.walk_packages(shoal_agent.__path__, prefix="shoal_agent."):
        if not module.name.endswith(_ENDS_A_PROCESS) and not _is_optional(module.name):
            importlib.import_module(module.name)


def read_state(state: Path, *, configuration: Path | None) -> Configuration:
    """Read all that the daemon will read at its start; its configuration.

    Raises:
        AgentError: a file isn't what this agent reads.
        sqlite3.Error: the outbox isn't.
    """
    files = DiskFiles()
    load_device(files, state)
    load_slots(files, state)
    load_journal(files, state)
    load_trusted_keys(files, state)
    load_trust_report(files, state)
    if (state / OUTBOX).exists():
        with closing(sqlite3.connect(f"file:{state / OUTBOX}?mode=ro", uri=True)) as outbox:
            outbox.execute("SELECT COUNT(*) FROM stream").fetchone()
    path = configuration or state / CONFIGURATION
    return load_configuration(path, environment=os.environ, is_required=configuration is not None)


def _is_optional(module: str) -> bool:
    """Whether it needs what an installation may be without."""
    return module in OPTIONAL


OPTIONAL = frozenset({"shoal_agent.pkcs11_key"})
"""Modules that need an extra: which of them are needed here, the agent on trial shows."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
