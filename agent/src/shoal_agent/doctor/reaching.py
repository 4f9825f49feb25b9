"""How far does this board get towards its fleet, step by step, with the keys and authorities that the agent uses?

Nothing is changed there: the broker is asked with a protocol version that no broker has, so that it answers and lets
nobody in (MQTT 5.0, 3.1.2.2; a second client with the device's name would end the daemon's connection); the devices'
listener is asked for metadata that everyone gets.
"""

import contextlib
import enum
import http.client
import socket
import ssl
import struct
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from shoal_wire import paths

from shoal_agent.credentials import judging_time, make_context
from shoal_agent.errors import AgentError
from shoal_agent.files import Files
from shoal_agent.state import load_device

TIMEOUT_S = 10.0
"""For each step."""
BROKER = "broker"
LISTENER = "devices' listener"

_CONNACK = 0x20
_NO_VERSION = 0x7F
_METADATA = f"{paths.TUF_METADATA}timestamp.json"


class Step(enum.StrEnum):
    """What is done, in order. Each needs the one before."""

    KEYS = "keys"
    NAME = "name"
    CONNECTION = "connection"
    TLS = "TLS"
    ANSWER = "answer"


class Place(NamedTuple):
    """A listener of the fleet."""

    what: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Reached(NamedTuple):
    """How far it went: `failed` is None where the place answered as it should."""

    place: Place
    failed: Step | None = None
    error: str = ""
    told: str = ""
    """What the place answered."""


class _Refused(Exception):
    """The place answered, and not as it should."""


Ask = Callable[[ssl.SSLSocket, Place], str]


def reach_fleet(files: Files, state: Path, *, now: float) -> tuple[Reached, ...]:
    """Try the broker and the devices' listener; nothing where this board isn't enrolled or may not be looked at."""
    try:
        device = load_device(files, state)
    except (AgentError, OSError):
        return ()
    url = urllib.parse.urlsplit(device.devices_url)
    broker = Place(BROKER, device.broker_host, device.broker_port)
    listener = Place(LISTENER, url.hostname or "", url.port or 443)
    try:
        context = make_context(files, state, at=judging_time(files, state, now=now))
    except (AgentError, OSError) as error:
        return tuple(Reached(place, Step.KEYS, str(error)) for place in (broker, listener))
    return reach(broker, context=context, ask=ask_broker), reach(listener, context=context, ask=ask_listener)


def reach(place: Place, *, context: ssl.SSLContext, ask: Ask, timeout_s: float = TIMEOUT_S) -> Reached:
    """Go as far as it goes."""
    with contextlib.ExitStack() as opened:
        step = Step.NAME
        try:
            socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
            step = Step.CONNECTION
            plain = opened.enter_context(socket.create_connection((place.host, place.port), timeout=timeout_s))
            step = Step.TLS
            secured = opened.enter_context(context.wrap_socket(plain, server_hostname=place.host))
            step = Step.ANSWER
            return Reached(place, told=ask(secured, place))
        except ssl.SSLCertVerificationError as error:
            return Reached(place, step, error.verify_message)
        except (OSError, ValueError, http.client.HTTPException, _Refused) as error:
            return Reached(place, step, _in_words(error))


def ask_broker(connection: ssl.SSLSocket, place: Place) -> str:
    """Have an MQTT broker say that it is one.

    Raises:
        OSError: it ended the connection, as one does that takes no certificate of this device.
    """
    name = b"MQTT"
    body = struct.pack(">H", len(name)) + name + bytes([_NO_VERSION, 0]) + bytes(2) + bytes(2)
    connection.sendall(bytes([0x10, len(body)]) + body)
    answer = connection.recv(4)
    if not answer:
        raise _Refused("it ended the connection without a word")
    if answer[0] != _CONNACK:
        raise _Refused("what answers isn't an MQTT broker")
    return "it speaks MQTT"


def ask_listener(connection: ssl.SSLSocket, place: Place) -> str:
    """Ask for the fleet's signed metadata, which may not be there yet.

    Raises:
        OSError, HTTPException: no answer.
    """
    request = f"GET {_METADATA} HTTP/1.1\r\nHost: {place.host}:{place.port}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    if answer.status not in (http.client.OK, http.client.NOT_FOUND):
        raise _Refused(f"it answers {answer.status} {answer.reason}")
    return f"it answers {answer.status}"


def _in_words(error: Exception) -> str:
    """An error without the numbers and file names of the library that raised it."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error) or type(error).__name__
