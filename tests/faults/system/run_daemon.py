"""Runs the real daemon, its updater that of `halting_updater`. Arguments: control folder, state folder."""

import logging
import sys
from pathlib import Path

from shoal_agent.configuration import load_configuration
from shoal_agent.daemon.daemon import run_daemon
from shoal_agent.daemon.supervision import Programs
from shoal_agent.files import DiskFiles


def main(control: str, state: str) -> None:
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s")
    configuration = load_configuration(Path(state) / "agent.toml", environment={}, is_required=True)
    updater = (sys.executable, "-m", "tests.faults.system.halting_updater", control)
    run_daemon(
        Path(state), configuration=configuration, files=DiskFiles(), programs=Programs()._replace(updater=updater)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
