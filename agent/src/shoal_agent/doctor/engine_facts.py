"""What becomes of each engine on this board, when its worker loads a tiny model?"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from shoal_agent.configuration import Configuration
from shoal_agent.engine_table import LIBRARIES, candidates, present
from shoal_agent.front.probe import ProbeResult, probe_engine
from shoal_agent.front.probe_models import PROBE_MODELS


class EngineFacts(NamedTuple):
    """One engine. `probes` are empty where it wasn't tried: it isn't found, or isn't wanted."""

    engine: str
    interpreter: str
    is_wanted: bool
    """Configuration doesn't leave it out."""
    is_found: bool
    """Configuration names an interpreter for it, or the agent's own has its library."""
    probes: tuple[ProbeResult, ...] = ()


def read_engines(configuration: Configuration) -> Iterator[EngineFacts]:
    """Each engine that the agent knows. Those that are found and wanted are started, once for each format."""
    found = {candidate.engine for candidate in present(interpreters=configuration.interpreters)}
    known = dict.fromkeys([*LIBRARIES, *(candidate.engine for candidate in candidates())])
    for engine in known:
        interpreter = configuration.interpreters.get(engine, sys.executable)
        is_wanted = not configuration.engines or engine in configuration.engines
        probes = tuple(_probe(engine, interpreter=interpreter)) if is_wanted and engine in found else ()
        yield EngineFacts(engine, interpreter, is_wanted, engine in found, probes)


def _probe(engine: str, *, interpreter: str) -> Iterator[ProbeResult]:
    for candidate in candidates():
        if candidate.engine == engine and candidate.model_format in PROBE_MODELS:
            yield probe_engine(interpreter, engine=engine, model_format=candidate.model_format)
