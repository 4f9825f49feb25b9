"""How is one question asked on an HTTPS listener of the fleet?

For what is asked once in weeks: enrolment and renewal. The updater has a client of its own, for many bytes.
"""

import contextlib
import http.client
import json
import ssl
import urllib.parse
from typing import NamedTuple

from shoal_agent.errors import FleetRefused, FleetUnreachable, WrongServer

TIMEOUT_S = 30.0
_TRY_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class Question(NamedTuple):
    """A request without its server."""

    method: str
    path: str
    body: bytes | None = None
    bearer: str | None = None


def ask(url: str, question: Question, *, context: ssl.SSLContext, limit_bytes: int) -> bytes:
    """The body of the answer to one question. Nothing is followed anywhere else.

    Raises:
        FleetUnreachable: no answer, or one that says to come back later.
        WrongServer: not a server that `context` trusts.
        FleetRefused: with the fleet's own reason.
    """
    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": "application/json"}
    if question.bearer:
        headers["Authorization"] = f"Bearer {question.bearer}"
    try:
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=TIMEOUT_S, context=context
        )
        with contextlib.closing(connection):
            connection.request(question.method, question.path, body=question.body, headers=headers)
            answer = connection.getresponse()
            raw = answer.read(limit_bytes + 1)
    except ssl.SSLCertVerificationError as error:
        raise WrongServer(error.verify_message) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FleetUnreachable(f"{url}: no answer: {error or type(error).__name__}") from None
    if answer.status in _TRY_LATER:
        raise FleetUnreachable(f"{url}{question.path}: {answer.status} {_reason(raw)}")
    if answer.status not in (200, 201):
        raise FleetRefused(f"{url}{question.path}: {answer.status} {_reason(raw)}")
    if len(raw) > limit_bytes:
        raise FleetRefused(f"{url}{question.path}: expected at most {limit_bytes} bytes, found more")
    return raw


def _reason(raw: bytes) -> str:
    """What the fleet says about an error, as printable text."""
    try:
        text = json.loads(raw)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        text = "without a reason"
    return "".join(character for character in str(text)[:300] if character.isprintable())
