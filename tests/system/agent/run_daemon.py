"""Runs the real daemon with whatever updater and front the command line names, as JSON lists."""

import json
import logging
import sys
from pathlib import Path

from shoal_agent.configuration import load_configuration
from shoal_agent.daemon.daemon import run_daemon
from shoal_agent.daemon.supervision import Programs
from shoal_agent.errors import AgentError
from shoal_agent.files import DiskFiles

if __name__ == "__main__":
    state, updater, front = sys.argv[1:]
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(relativeCreated)d %(name)s: %(message)s")
    configuration = load_configuration(Path(state) / "agent.toml", environment={}, is_required=True)
    programs = Programs(updater=tuple(json.loads(updater)), front=tuple(json.loads(front)))
    try:
        run_daemon(Path(state), configuration=configuration, files=DiskFiles(), programs=programs)
    except AgentError as error:
        sys.exit(str(error))
