"""The fleet's end of the protocol, over a real broker: signs desired documents and acknowledgements, commits rows."""

import queue
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from shoal_wire import envelope, topics
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.messages import (
    Ack,
    Answer,
    Assignment,
    AssignmentKeys,
    Batch,
    Desired,
    Event,
    Presence,
    Process,
    Reported,
    Row,
    Telemetry,
    Tuned,
    parse_row,
)
from shoal_wire.topics import Down, Up

from tests.system.fleet.broker_site import Client


class FakeFleet:
    """Takes what one device publishes. `deaf` batches are dropped before anything is acknowledged."""

    def __init__(
        self, client: Client, *, device: str, identity: ec.EllipticCurvePublicKey, key: ed25519.Ed25519PrivateKey
    ) -> None:
        self.client = client
        self.device = device
        self.identity = identity
        self.signer = KeySigner(key)
        self.keys = encode(AssignmentKeys(keys=(public_text(key.public_key()),)))
        self.watermarks: dict[str, int] = {}
        self.rows: list[Row] = []
        self.reports: list[Reported] = []
        self.presence: list[Presence] = []
        self.batches = 0
        self.deaf = 0
        self.lost = 0
        self._stop = Flag()
        client.subscribe(topics.all_up())
        self._thread = Thread(target=self._listen)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def assign(
        self, *assignments: Assignment, generation: int, device: str | None = None, key: KeySigner | None = None
    ) -> None:
        desired = Desired(
            device=device or self.device, epoch=1, generation=generation, issued_at=0.0, assignments=assignments
        )
        self.publish_desired(envelope.seal(encode(desired), envelope.DESIRED, key or self.signer))

    def publish_desired(self, raw: bytes) -> None:
        self.client.publish(topics.down(self.device, Down.DESIRED), payload=raw, retain=True)

    def publish_ack(self, raw: bytes) -> None:
        self.client.send(topics.down(self.device, Down.ACK), payload=raw)

    def answers(self) -> list[Answer]:
        return [row for row in self.rows if isinstance(row, Answer)]

    def events(self, name: str) -> list[Event]:
        return [row for row in self.rows if isinstance(row, Event) and row.name == name]

    def processes(self) -> list[Process]:
        return [row for row in self.rows if isinstance(row, Process)]

    def tuned(self) -> list[Tuned]:
        return [row for row in self.rows if isinstance(row, Tuned)]

    def counts(self) -> list[Telemetry]:
        return [row for row in self.rows if isinstance(row, Telemetry)]

    def last_report(self, fits: Callable[[Reported], bool]) -> bool:
        return bool(self.reports) and fits(self.reports[-1])

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                topic, payload = self.client.messages.get(timeout=0.1)
            except queue.Empty:
                continue
            if payload:
                self._take(topics.parse(topic).channel, payload)

    def _take(self, channel: Up | Down, payload: bytes) -> None:
        if channel is Up.PRESENCE:
            self.presence.append(decode(payload, Presence, what="presence"))
        elif channel is Up.REPORTED:
            raw = envelope.verify(payload, envelope.REPORTED, [self.identity], what="reported")
            self.reports.append(decode(raw, Reported, what="reported"))
        elif channel is Up.BATCH:
            raw = envelope.verify(payload, envelope.BATCH, [self.identity], what="batch")
            self._commit(decode(raw, Batch, what="batch"))

    def _commit(self, batch: Batch) -> None:
        self.batches += 1
        if self.batches <= self.deaf:
            return
        watermark = self.watermarks.get(batch.stream, 0)
        begin = batch.lost.first if batch.lost else batch.first
        if begin <= watermark + 1:
            if batch.lost:
                self.lost += batch.lost.last - max(watermark, batch.lost.first - 1)
            for number, row in enumerate(batch.rows, start=batch.first):
                if number > watermark:
                    self.rows.append(parse_row(bytes(row)))
            self.watermarks[batch.stream] = max(watermark, batch.first + len(batch.rows) - 1)
        ack = Ack(device=self.device, stream=batch.stream, sequence=self.watermarks.get(batch.stream, 0))
        self.publish_ack(envelope.seal(encode(ack), envelope.ACK, self.signer))


def with_field(document: msgspec.Struct, **fields: object) -> bytes:
    """A document's bytes with some fields set to whatever is given."""
    return msgspec.json.encode(msgspec.to_builtins(document) | fields)
