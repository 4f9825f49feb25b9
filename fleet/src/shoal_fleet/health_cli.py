"""Does the server on this machine answer? `shoal-fleet health`, for whatever restarts a server that doesn't."""

import argparse
import http.client
import json
import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from shoal_wire.encoding import decode_struct
from shoal_wire.errors import Malformed

from shoal_fleet.configuration import load_configuration
from shoal_fleet.enrolment.service import Addresses
from shoal_fleet.errors import Conflict
from shoal_fleet.state import StatePaths

HEALTH_PATH = "/api/v1/health"
TIMEOUT_S = 5.0


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add the command; `state` is the default folder."""
    health = commands.add_parser(
        "health",
        help="ask the server on this machine how it is; exit code 1 where it doesn't answer",
        epilog="example:\n  shoal-fleet health",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    health.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")
    health.set_defaults(run=_print_health)


def read_health(paths: StatePaths, *, address: str) -> str:
    """What the server at an address of this machine says of itself: `ok`, or `degraded` where warnings should be read.

    Raises:
        Conflict: it doesn't answer, or not as a healthy server does.
    """
    try:
        addresses = decode_struct(paths.addresses.read_bytes(), Addresses, what=str(paths.addresses))
        context = ssl.create_default_context(cafile=paths.authority_certificate)
        context.check_hostname = False  # the authority signs this fleet's certificates alone
        port = urlsplit(addresses.operators_url).port
        connection = http.client.HTTPSConnection(address, port, context=context, timeout=TIMEOUT_S)
        connection.request("GET", HEALTH_PATH)
        reply = connection.getresponse()
        body = reply.read(4096)
        connection.close()
    except (OSError, http.client.HTTPException, Malformed) as error:
        raise Conflict(
            f"no answer from the server of {paths.folder}: {error}; is `shoal-fleet serve` running?"
        ) from None
    if reply.status != http.client.OK:
        raise Conflict(f"the server answers with status {reply.status}: its log says why")
    return str(json.loads(body)["status"])


def _print_health(_arguments: argparse.Namespace, paths: StatePaths) -> None:
    configuration = load_configuration(paths.configuration, environment=os.environ, options={})
    print(read_health(paths, address=configuration.own_address))
