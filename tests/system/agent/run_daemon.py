"""Runs the real daemon with whatever updater, front and tuning child the command line names, as JSON lists."""

import json
import logging
import sys
from pathlib import Path

from shoal_agent.configuration import load_configuration
from shoal_agent.daemon.daemon import run_daemon
from shoal_agent.daemon.supervision import Programs
from shoal_agent.daemon.tuning import Pace
from shoal_agent.errors import AgentError
from shoal_agent.files import DiskFiles

SOON = Pace(look_s=0.5, follow_s=0.2, window_s=0.2, patience_s=1.0)

if __name__ == "__main__":
    state, *commands = sys.argv[1:]
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(relativeCreated)d %(name)s: %(message)s")
    configuration = load_configuration(Path(state) / "agent.toml", environment={}, is_required=True)
    programs = Programs(*(tuple(json.loads(command)) for command in commands))
    try:
        run_daemon(Path(state), configuration=configuration, files=DiskFiles(), programs=programs, pace=SOON)
    except AgentError as error:
        sys.exit(str(error))
