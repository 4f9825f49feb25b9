"""How does a test get a broker with an authority of its own, and clients of it?"""

import asyncio
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import paho.mqtt.client as mqtt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions
from shoal_fleet.broker.configuration import BrokerPaths, BrokerSettings
from shoal_fleet.broker.files import write_revocations, write_start
from shoal_fleet.broker.process import Broker
from shoal_fleet.pki.authority import Authority, Identity

DEADLINE_S = 60.0
ADDRESS = "127.0.0.1"


def wait_until(is_true: Callable[[], bool], *, what: str) -> None:
    """Poll until it holds; fail with `what` at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}")
        time.sleep(0.02)


class Refused(Exception):
    """The broker closed the connection before it said who may come in."""


class Client:
    """An MQTT 5 client that connects once and never again by itself."""

    def __init__(
        self, *, port: int, context: ssl.SSLContext, client_id: str, keeps_session: bool, will: str | None
    ) -> None:
        self.messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.disconnected = threading.Event()
        self._answers: queue.Queue[ReasonCode | None] = queue.Queue()
        self._mqtt = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=mqtt.MQTTv5, reconnect_on_failure=False
        )
        self._mqtt.tls_set_context(context)
        if will is not None:
            self._mqtt.will_set(will, b"gone", qos=1)
        self._mqtt.on_connect = lambda client, data, flags, code, properties: self._answers.put(code)
        self._mqtt.on_publish = lambda client, data, mid, code, properties: self._answers.put(code)
        self._mqtt.on_subscribe = lambda client, data, mid, codes, properties: self._answers.put(codes[0])
        self._mqtt.on_message = lambda client, data, message: self.messages.put((message.topic, bytes(message.payload)))
        self._mqtt.on_disconnect = lambda client, data, flags, code, properties: self._on_disconnect()
        try:
            session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            session.SessionExpiryInterval = 3600 if keeps_session else 0
            self._mqtt.connect(ADDRESS, port, clean_start=not keeps_session, properties=session)
            self._mqtt.loop_start()
            self._answer()
        except (OSError, Refused):
            self.close()
            raise

    def publish(self, topic: str, *, payload: bytes = b"x", retain: bool = False) -> str:
        """The broker's answer in words."""
        self._mqtt.publish(topic, payload, qos=1, retain=retain)
        return str(self._answer())

    def send(self, topic: str, *, payload: bytes) -> None:
        """Publish without waiting for an answer."""
        self._mqtt.publish(topic, payload, qos=0)

    def subscribe(self, topic: str) -> str:
        """The broker's answer in words. Whatever it had to say before has been received then."""
        self._mqtt.subscribe(topic, options=SubscribeOptions(qos=1))
        return str(self._answer())

    def receive(self) -> tuple[str, bytes]:
        return self.messages.get(timeout=DEADLINE_S)

    def drop(self) -> None:
        """End the connection as a power cut would, without a word."""
        connection = self._mqtt.socket()
        assert isinstance(connection, ssl.SSLSocket)
        connection.shutdown(socket.SHUT_RDWR)
        assert self.disconnected.wait(DEADLINE_S)

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def _answer(self) -> ReasonCode:
        answer = self._answers.get(timeout=DEADLINE_S)
        if answer is None:
            raise Refused
        return answer

    def _on_disconnect(self) -> None:
        self.disconnected.set()
        self._answers.put(None)


@dataclass
class Site:
    """A broker's folder, its authority, and whatever is needed to connect to it."""

    folder: Path
    authority: Authority
    now: datetime
    port: int
    broker: Broker
    runner: asyncio.Runner
    clients: list[Client] = field(default_factory=list)

    @property
    def paths(self) -> BrokerPaths:
        return BrokerPaths(self.folder / "the broker")

    def device(self, name: str, *, issued: datetime | None = None, authority: Authority | None = None) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        pem = (authority or self.authority).issue_client(
            csr.public_bytes(Encoding.PEM), device_id=name, now=issued or self.now
        )
        return Identity(
            key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate_pem=pem
        )

    def context(self, identity: Identity | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if identity is not None:
            chain = self.folder / "client.pem"
            chain.write_bytes(identity.certificate_pem + identity.key_pem)
            context.load_cert_chain(chain)
        return context

    def connect(
        self,
        identity: Identity | None,
        *,
        client_id: str = "any",
        keeps_session: bool = False,
        will: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> Client:
        """Raises Refused or OSError where the broker lets nobody in."""
        client = Client(
            port=self.port,
            context=context or self.context(identity),
            client_id=client_id,
            keeps_session=keeps_session,
            will=will,
        )
        self.clients.append(client)
        return client

    def connect_fleet(self) -> Client:
        return self.connect(self.authority.issue_fleet(now=self.now))

    def lets_in(self, identity: Identity | None, *, context: ssl.SSLContext | None = None) -> bool:
        try:
            self.connect(identity, context=context).close()
        except (Refused, OSError):
            return False
        return True

    def revoke(self, *, serials: Sequence[int], names: Sequence[str]) -> None:
        """Write list and rules and tell the broker, as the fleet does."""
        crl = self.authority.crl(
            [(serial, self.now) for serial in serials], now=self.now, previous_pem=self.paths.crl.read_bytes()
        )
        write_revocations(self.paths, crl_pem=crl, revoked=names)
        self.broker.reload()


@contextmanager
def open_site(folder: Path, *, crl_age: timedelta = timedelta(0)) -> Iterator[Site]:
    """A site whose files are written and whose broker isn't started."""
    now = datetime.now(UTC)
    authority = Authority.create(folder / "authority", now=now)
    paths = BrokerPaths(folder / "the broker")
    port = write_start(
        paths,
        settings=BrokerSettings(bind_address=ADDRESS),
        authority_pem=authority.certificate_pem,
        server=authority.issue_server([ADDRESS], now=now),
    )
    crl = authority.crl([], now=now - crl_age, previous_pem=None)
    write_revocations(paths, crl_pem=crl, revoked=[])
    with asyncio.Runner() as runner:
        broker = Broker(paths, bind_address=ADDRESS, port=port)
        site = Site(folder=folder, authority=authority, now=now, port=port, broker=broker, runner=runner)
        try:
            yield site
        finally:
            for client in site.clients:
                client.close()
            runner.run(broker.stop())
