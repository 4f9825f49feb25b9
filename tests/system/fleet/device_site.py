"""How does a test get a device of a running fleet as the real agent enrolled it, and change what only time changes?"""

import queue
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import paho.mqtt.client as mqtt
from cryptography import x509
from paho.mqtt.enums import CallbackAPIVersion
from shoal_agent.credentials import Lifetime, find_credentials, make_context
from shoal_agent.enrolment import Label, enrol, make_csr
from shoal_agent.files import DiskFiles, Files
from shoal_agent.keys import load_keys
from shoal_agent.renewal import renew
from shoal_agent.state import CERTIFICATE, load_device
from shoal_wire import topics

from tests.system.fleet.broker_site import DEADLINE_S
from tests.system.fleet.fleet_site import Fleet, authorities_of

FILES = DiskFiles()


@dataclass
class Enrolled:
    """A state folder of the agent."""

    fleet: Fleet
    state: Path

    @property
    def id(self) -> str:
        return load_device(FILES, self.state).device

    def renew(self, *, files: Files = FILES, now: float | None = None) -> Lifetime:
        return renew(files, self.state, agent_version="0.1.0", now=time.time() if now is None else now)

    def certificate(self) -> x509.Certificate:
        """The one with which it connects."""
        return x509.load_pem_x509_certificate(find_credentials(FILES, self.state).certificate.read_bytes())

    def let_expire(self) -> None:
        """As if the board had been off for longer than its certificate lasts."""
        authority = authorities_of(self.fleet.program.state)
        csr = make_csr(load_keys(FILES, self.state).tls).encode()
        long_ago = datetime.now(UTC) - timedelta(days=31)
        pem = authority.issue_client(csr, device_id=self.id, now=long_ago, valid_days=30)
        (self.state / CERTIFICATE).write_bytes(pem)

    def connect(self) -> "Connection":
        """To the broker, as the agent does."""
        return Connection(self)

    def is_let_in(self) -> bool:
        """Whether the broker takes it."""
        try:
            Connection(self).close()
        except (OSError, queue.Empty):
            return False
        return True

    def shown(self) -> dict[str, object]:
        shown = self.fleet.get(f"/api/v1/devices/{self.id}")
        assert isinstance(shown, dict)
        return shown

    def set_in_database(self, **values: object) -> None:
        """What no test can wait for."""
        columns = ", ".join(f"{name} = ?" for name in values)
        with closing(sqlite3.connect(self.fleet.program.state / "fleet.db", timeout=DEADLINE_S)) as database, database:
            database.execute(f"UPDATE device SET {columns} WHERE id = ?", (*values.values(), self.id))


class Connection:
    """A connection to the broker. Raises OSError or queue.Empty where there is none."""

    def __init__(self, device: Enrolled) -> None:
        known = load_device(FILES, device.state)
        self.device = known.device
        self.messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.ended: queue.Queue[str] = queue.Queue()
        self._answers: queue.Queue[str] = queue.Queue()
        self._mqtt = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=self.device, protocol=mqtt.MQTTv5, reconnect_on_failure=False
        )
        self._mqtt.tls_set_context(make_context(FILES, device.state, at=time.time()))
        # Not by way of `self`: what is in a circle is closed late.
        answers, messages, ended = self._answers, self.messages, self.ended
        self._mqtt.on_connect = lambda _c, _d, _f, code, _p: answers.put(str(code))
        self._mqtt.on_subscribe = lambda _c, _d, _m, codes, _p: answers.put(str(codes[0]))
        self._mqtt.on_publish = lambda _c, _d, _m, code, _p: answers.put(str(code))
        self._mqtt.on_message = lambda _c, _d, message: messages.put((message.topic, bytes(message.payload)))

        def note_end(_client: mqtt.Client, _data: object, _flags: object, code: object, _properties: object) -> None:
            ended.put(str(code))
            answers.put(str(code))

        self._mqtt.on_disconnect = note_end
        try:
            self._mqtt.connect(known.broker_host, known.broker_port)
            self._mqtt.loop_start()
            answer = self.answer()
        except (OSError, queue.Empty):
            self.close()
            raise
        if answer != "Success":
            self.close()
            raise ConnectionRefusedError(answer)

    def listen(self) -> None:
        self._mqtt.subscribe(topics.all_down(self.device), qos=1)
        self.answer()

    def publish(self, topic: str, payload: bytes = b"x", *, retain: bool = False) -> str:
        self._mqtt.publish(topic, payload, qos=1, retain=retain)
        return self.answer()

    def answer(self) -> str:
        return self._answers.get(timeout=DEADLINE_S)

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()


def enrol_device(fleet: Fleet, folder: Path, name: str, *, token: str = "", identity_key: str = "") -> Enrolled:
    """A new state folder, enrolled by the agent, with a new token unless one is given."""
    state = folder / f"board-{name}"
    label = Label(name, "generic", identity_key=identity_key)
    enrol(FILES, state, token=token or fleet.make_token(name), label=label, agent_version="0.1.0")
    return Enrolled(fleet, state)


def copy_without(fields: tuple[str, ...], path: Path) -> None:
    """A JSON file as a program wrote it that didn't know these fields."""
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({name: value for name, value in document.items() if name not in fields}))
