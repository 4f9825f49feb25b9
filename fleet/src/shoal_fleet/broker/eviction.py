"""How is the open connection of a device that was shut out ended, and not only silenced?

Access rules make it deaf and mute at the next reload; Mosquitto keeps it open all the same. A broker ends a connection
when another comes with the same client id (MQTT 5, 4.13 and 3.1.4), and the client id is the certificate's name. So the
fleet connects once with a certificate of that name, for a key that is then forgotten, and goes: the session and what is
queued for it are gone too, and the revocation list keeps the device from coming back.
"""

import asyncio
import logging
import ssl
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Identity

ROUNDS = 3
ROUND_S = 2.0
"""Between two rounds: a device may have come back before the broker had read the list."""
ANSWER_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


class Evictions:
    """Ends connections, each several times over."""

    def __init__(self, *, host: str, port: int, authority: Path, issue: Callable[[str], Identity]) -> None:
        """`issue` makes a key with a certificate for a device id. `authority` signed the broker's certificate."""
        self._host = host
        self._port = port
        self._authority = authority
        self._issue = issue
        self._lock = threading.Lock()
        self._rounds: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def put(self, device_id: str) -> None:
        """A device was shut out. From any thread; returns at once."""
        with self._lock:
            self._rounds[device_id] = ROUNDS
        self._loop.call_soon_threadsafe(self._wake.set)

    async def serve(self) -> None:
        """End the connections of those that were put, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while devices := self._next_round():
                for device in devices:
                    await asyncio.to_thread(self._evict, device)
                await asyncio.sleep(ROUND_S)

    def _next_round(self) -> list[str]:
        with self._lock:
            devices = list(self._rounds)
            self._rounds = {device: left - 1 for device, left in self._rounds.items() if left > 1}
        return devices

    def _evict(self, device_id: str) -> None:
        try:
            context = self._make_context(self._issue(device_id))
            take_session_over(self._host, self._port, context=context, client_id=device_id)
        except (OSError, ValueError) as error:
            _log.warning("device %s: its connection couldn't be ended, but is silenced: %s", device_id, error)

    def _make_context(self, identity: Identity) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._authority)
        with tempfile.NamedTemporaryFile() as chain:  # mode 0600; the library reads files only
            chain.write(identity.certificate_pem + identity.key_pem)
            chain.flush()
            context.load_cert_chain(chain.name)
        return context


def take_session_over(host: str, port: int, *, context: ssl.SSLContext, client_id: str) -> None:
    """Connect under a client id and go again: whoever was connected under it is disconnected, its session forgotten.

    Raises:
        OSError: no broker, or no answer of it in time.
    """
    connected = threading.Event()
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, client_id=client_id, protocol=mqtt.MQTTv5, reconnect_on_failure=False
    )
    client.tls_set_context(context)
    client.on_connect = lambda _client, _data, _flags, _code, _properties: connected.set()
    client.connect_timeout = ANSWER_TIMEOUT_S
    try:
        client.connect(host, port, clean_start=True)
        client.loop_start()
        if not connected.wait(ANSWER_TIMEOUT_S):
            raise OSError(f"broker at {host}:{port}: no answer within {ANSWER_TIMEOUT_S:.0f} s")
    finally:
        client.disconnect()
        client.loop_stop()


def issue_briefly(authorities: Authorities, *, now: Callable[[], datetime]) -> Callable[[str], Identity]:
    """For `Evictions`: certificates of one day by the authority that issues."""
    return lambda device_id: authorities.issuer.issue_device(device_id, now=now(), valid_days=1)
