"""How is the device connected to its broker, and how do messages cross between the broker's thread and the loop?

MQTT 5 over TLS 1.3 with the device's certificate. paho runs a thread for each connection, which lives in this file
only; each connection is a new client, because what was in flight on the last one is sent again by those who know
whether it still counts.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from shoal_wire import topics
from shoal_wire.encoding import MAX_DOCUMENT_BYTES, encode
from shoal_wire.messages import Presence
from shoal_wire.topics import Up

from shoal_agent.credentials import judging_time, make_context
from shoal_agent.daemon.backoff import Backoff
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.state import Device

KEEPALIVE_S = 60
"""A ping and its answer cost 200 bytes with headers, 0.3 MB a day. A board that vanished is missed after 90 s."""
CONNECT_TIMEOUT_S = 10.0
SESSION_EXPIRY_S = 3600
"""How long the broker keeps acknowledgements for a device that is away. Desired documents are retained anyway."""
MAX_PACKET_BYTES = 2 * MAX_DOCUMENT_BYTES
MAX_WAITING = 32
"""Messages, each way, between broker and loop."""
STEADY_S = 30.0
_LAST_S = 2.0
_HANDOVER_S = 60.0

_LOG = logging.getLogger(__name__)
_QOS = 1


class Incoming(NamedTuple):
    """A message from the broker."""

    topic: str
    payload: bytes


class Link:
    """The connection, kept up."""

    def __init__(
        self,
        device: Device,
        *,
        files: Files,
        state: Path,
        stream: str,
        on_message: Callable[[Incoming], None],
        on_connected: Callable[[bool], None],
        on_turned_away: Callable[[], None],
    ) -> None:
        """All callbacks run in the loop. `on_message` calls `taken` once it is done with a message; `on_turned_away`: a
        broker was there, and ended the connection before it let the device in."""
        self._device = device
        self._files = files
        self._state = state
        self._on_turned_away = on_turned_away
        self._connection: _Connection | None = None
        self._is_renewed = False
        self._stream = stream
        self._on_message = on_message
        self._on_connected = on_connected
        self._client: Client | None = None
        self._room = threading.BoundedSemaphore(MAX_WAITING)

    def publish(self, channel: Up, payload: bytes, *, is_retained: bool = False) -> bool:
        """Hand a message to the broker's thread; False when there is no connection, or too much waits for it."""
        if self._client is None:
            return False
        topic = topics.up(self._device.device, channel)
        return self._client.publish(topic, payload, qos=_QOS, retain=is_retained).rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def taken(self) -> None:
        """A message was dealt with: there is room for another."""
        self._room.release()

    def connect_anew(self) -> None:
        """There is another certificate: take it at once."""
        if self._connection is not None:
            self._is_renewed = True
            self._connection._end("there is a new certificate")

    async def serve(self) -> None:
        """Connect, again and again, until cancelled."""
        backoff = Backoff(first_s=1.0, most_s=60.0)
        while True:
            started = time.monotonic()
            try:
                self._connection = _Connection(self)
                reason = await self._connection.run()
            except (OSError, ValueError, StateDamaged) as error:
                reason = str(error) or type(error).__name__
            finally:
                self._connection = None
            if self._is_renewed or time.monotonic() - started > STEADY_S:
                self._is_renewed = False
                backoff.reset()
            wait_s = backoff.next_s()
            _LOG.warning(
                "broker %s:%d: %s; next try in %.1f s",
                self._device.broker_host,
                self._device.broker_port,
                reason,
                wait_s,
            )
            await asyncio.sleep(wait_s)

    def _handle_message(self, message: Incoming) -> None:
        self._on_message(message)

    def _handle_connected(self, client: Client) -> None:
        self._client = client
        self.publish(Up.PRESENCE, self._presence(is_online=True), is_retained=True)
        _LOG.info("broker %s:%d: connected", self._device.broker_host, self._device.broker_port)
        self._on_connected(True)

    def _handle_ended(self) -> None:
        if self._client is not None:
            self._client = None
            self._on_connected(False)

    def _presence(self, *, is_online: bool) -> bytes:
        return encode(Presence(online=is_online, stream=self._stream, at=time.time()))


class _Connection:
    """One connection from its beginning to its end. Methods whose names begin with `_on` run in paho's thread."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._is_over = False
        self._was_there = False
        """Whether a broker took the connection; it may have ended it since."""

    async def run(self) -> str:
        """Why it ended. Raises OSError when it can't be made, ValueError for files that are no certificate or key."""
        link = self._link
        client = self._make_client()
        try:
            await self._connect(client)
            self._was_there = True
            client.loop_start()
            return await self._ended
        finally:
            self._is_over = True
            if self._was_there and link._client is None and not link._is_renewed:
                link._on_turned_away()
            link._handle_ended()
            await asyncio.shield(asyncio.to_thread(_stop, client))

    def _make_client(self) -> Client:
        link, device = self._link, self._link._device
        at = judging_time(link._files, link._state, now=time.time())
        context = make_context(link._files, link._state, at=at)
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=device.device,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
        )
        client.tls_set_context(context)
        client.connect_timeout = CONNECT_TIMEOUT_S
        client.max_queued_messages_set(MAX_WAITING)
        client.will_set(topics.up(device.device, Up.PRESENCE), link._presence(is_online=False), qos=_QOS, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    async def _connect(self, client: Client) -> None:
        """In a thread of its own that nothing waits for at the end: names and handshakes take as long as they take."""
        connected: asyncio.Future[None] = self._loop.create_future()

        def settle(error: Exception | None) -> None:
            if not connected.done():
                connected.set_exception(error) if error else connected.set_result(None)

        def connect() -> None:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = SESSION_EXPIRY_S
            properties.MaximumPacketSize = MAX_PACKET_BYTES
            device, outcome = self._link._device, None
            try:
                client.connect(
                    device.broker_host, device.broker_port, KEEPALIVE_S, clean_start=False, properties=properties
                )
            except (OSError, ValueError) as error:
                outcome = error
            self._call_in_loop(settle, outcome)

        threading.Thread(target=connect, name="connect", daemon=True).start()
        await connected

    def _on_connect(
        self, client: Client, _: object, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._call_in_loop(self._end, f"refused: {reason}")
            return
        client.subscribe(topics.all_down(self._link._device.device), qos=_QOS)
        self._call_in_loop(self._link._handle_connected, client)

    def _on_disconnect(
        self, client: Client, _: object, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._call_in_loop(self._end, f"connection lost: {reason}")

    def _on_message(self, client: Client, _: object, message: MQTTMessage) -> None:
        """Wait for room: the broker's thread stops reading, and so does the broker stop sending."""
        if len(message.payload) > MAX_PACKET_BYTES or not self._link._room.acquire(timeout=_HANDOVER_S):
            _LOG.error("a message of %d bytes on %s was dropped", len(message.payload), message.topic)
            return
        self._call_in_loop(self._link._handle_message, Incoming(message.topic, bytes(message.payload)))

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _call_in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


def _stop(client: Client) -> None:
    """Say good-bye with the last will, so that nobody takes this device for connected, and end paho's thread."""
    client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
    deadline = time.monotonic() + _LAST_S
    while client.is_connected() and time.monotonic() < deadline:
        time.sleep(0.01)
    connection = client.socket()
    if isinstance(connection, socket.socket):  # None once it is closed
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    client.loop_stop()
