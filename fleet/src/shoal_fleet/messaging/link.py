"""How does the fleet stay connected to its broker?

MQTT 5 without a session that outlives the connection: retained documents come again at each connection, and batches are
sent again until they are acknowledged. paho's own thread does the network; it only puts into the inbox.
"""

import logging
import ssl
import threading
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode
from shoal_wire import topics
from shoal_wire.errors import Malformed
from shoal_wire.topics import Up

from shoal_fleet.messaging.inbox import Connected, Inbox, Message
from shoal_fleet.rollouts.publication import Receipt

KEEPALIVE_S = 30
FIRST_DELAY_S = 1
LONGEST_DELAY_S = 10

_log = logging.getLogger(__name__)


class Link:
    """A connection that is taken up again by itself."""

    def __init__(self, *, host: str, port: int, context: ssl.SSLContext, inbox: Inbox) -> None:
        """`context` trusts the fleet's authority and holds the fleet's client certificate."""
        self._host = host
        self._port = port
        self._inbox = inbox
        self._receipts = _Receipts()
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="shoal-fleet", protocol=mqtt.MQTTv5)
        self._mqtt.tls_set_context(context)
        self._mqtt.reconnect_delay_set(FIRST_DELAY_S, LONGEST_DELAY_S)
        self._mqtt.on_connect = self._on_connect
        self._mqtt.on_disconnect = self._on_disconnect
        self._mqtt.on_message = self._on_message
        self._mqtt.on_publish = self._on_publish

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._mqtt.is_connected()

    def start(self) -> None:
        """Connect, and connect again whenever the connection is lost. Returns at once."""
        self._mqtt.connect_async(self._host, self._port, keepalive=KEEPALIVE_S, clean_start=True)
        self._mqtt.loop_start()

    def stop(self) -> None:
        """End the connection and the network's thread."""
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def publish(self, topic: str, payload: bytes, *, retain: bool, receipt: Receipt | None) -> bool:
        """Send at least once (QoS 1); False where there is no connection. The receipt comes back over the inbox."""
        if not self._mqtt.is_connected():
            return False
        info = self._mqtt.publish(topic, payload, qos=1, retain=retain)
        self._return(self._receipts.sent(info.mid, receipt))
        return info.rc == mqtt.MQTT_ERR_SUCCESS

    def _return(self, receipt: Receipt | None) -> None:
        if receipt is not None:
            self._inbox.put(receipt)

    def _on_connect(self, client: mqtt.Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        if code.is_failure:
            _log.error("broker at %s:%d refused the fleet: %s", self._host, self._port, code)
            return
        _log.info("connected to the broker at %s:%d", self._host, self._port)
        client.subscribe(topics.all_up(), qos=1)
        self._inbox.put(Connected())

    def _on_disconnect(self, _client: mqtt.Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        if code.is_failure:
            _log.warning("lost the broker at %s:%d: %s", self._host, self._port, code)

    def _on_message(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        try:
            topic = topics.parse(message.topic)
        except Malformed:
            return  # of a newer protocol, or nonsense; a device can publish only below its own name
        # Empty is what clears a retained topic, and is told to those who listen too.
        if isinstance(topic.channel, Up) and message.payload:
            self._inbox.put(Message(topic, bytes(message.payload)))

    def _on_publish(self, _client: mqtt.Client, _data: Any, mid: int, code: ReasonCode, _properties: Any) -> None:
        receipt = self._receipts.confirmed(mid)
        if code.is_failure:
            _log.error("broker refused a message of the fleet: %s", code)
        else:
            self._return(receipt)


class _Receipts:
    """Pairs what was sent with its confirmation; either may come first, as they come from different threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[int, Receipt | None] = {}
        self._confirmed: set[int] = set()

    def sent(self, mid: int, receipt: Receipt | None) -> Receipt | None:
        """Note what was sent under a message id; returns it if it is confirmed already."""
        with self._lock:
            if mid in self._confirmed:
                self._confirmed.remove(mid)
                return receipt
            self._sent[mid] = receipt
            return None

    def confirmed(self, mid: int) -> Receipt | None:
        """Note a confirmation; returns what it is for, if that is known already."""
        with self._lock:
            if mid in self._sent:
                return self._sent.pop(mid)
            self._confirmed.add(mid)
            return None
