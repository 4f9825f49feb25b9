"""What do device and fleet say to each other?

Every document but presence travels in a signed envelope (`envelope.py`); docs/protocol.md lists them with their topics.
Times are Unix seconds as the sender's clock has them; durations say their unit in their name.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire.encoding import (
    Bytes64,
    Counter,
    DeviceId,
    Document,
    Identifier,
    Label,
    ModelName,
    Parameters,
    Seconds,
    Sha256,
    Text,
    Version,
    decode_by,
)
from shoal_wire.grant import Grant
from shoal_wire.histogram import Histogram
from shoal_wire.secret import SealedSecret
from shoal_wire.tuning import (
    MAX_CHOICES,
    MAX_MEASURED,
    BoardKind,
    Candidate,
    KnownChoice,
    MeasuredCandidate,
    Objective,
)
from shoal_wire.update import UpdateState

ASSIGNMENT_KEYS_PATH = "keys/assignment.json"
"""TUF target that names the keys which may sign desired documents and acknowledgements."""

MAX_BATCH_ROWS = 256
MAX_BATCH_BYTES = 192 << 10

StreamId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
"""Random name of one start of the daemon: sequence numbers count within it."""

Sequence = Annotated[int, Meta(ge=1, le=2**53)]


class AssignmentKeys(Document, frozen=True, kw_only=True):
    """Content of the target at ASSIGNMENT_KEYS_PATH: public keys as `envelope.public_text` writes them."""

    keys: Annotated[tuple[Bytes64, ...], Meta(min_length=1, max_length=8)]


class ProbationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a release must show on the board before the board keeps it."""

    answers: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    seconds: Seconds = 5.0
    p95_ratio: Annotated[float, Meta(gt=0)] = 2.0
    """Latency that p95 may reach, as a multiple of the previous release's p95 on this board."""
    max_errors: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    deadline_s: Seconds = 900.0
    """Where live input is too rare to judge by, the board goes back after that long."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One release that a device should run, with the keys to its files."""

    release: ModelName
    version: Version
    manifest_sha256: Sha256
    grants: Annotated[tuple[Grant, ...], Meta(min_length=1, max_length=4096)]
    probation: ProbationLimits = ProbationLimits()
    known: Annotated[tuple[KnownChoice, ...], Meta(max_length=MAX_CHOICES)] = ()
    """What other boards of this device's kind found out about the release's models."""


class Desired(Document, frozen=True, kw_only=True):
    """What a device should run. The pair of epoch and generation only grows."""

    device: DeviceId
    epoch: Counter
    generation: Counter
    issued_at: Seconds
    assignments: Annotated[tuple[Assignment, ...], Meta(max_length=16)]
    secrets: Annotated[tuple[SealedSecret, ...], Meta(max_length=32)] = ()
    """Of the device's configuration, sealed to it: what isn't here any more is forgotten."""

    @property
    def order(self) -> tuple[int, int]:
        """Which of two documents is the newer."""
        return self.epoch, self.generation


class ReleaseReference(msgspec.Struct, frozen=True):
    """A release by name and by the digest of its manifest."""

    release: ModelName
    version: Version
    manifest_sha256: Sha256


class SlotReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a device has for one model: the release that serves, and what it could go back to."""

    release: ModelName
    current: ReleaseReference | None
    previous: ReleaseReference | None
    serving: ReleaseReference | None
    """What the front really serves at this moment; None while it loads or has failed."""
    variant: Label = ""
    engine: Label = ""
    engine_version: Label = ""
    placement: tuple[Label, ...] = ()
    refused: tuple[Counter, ...] = ()
    """Generations that this device tried and will not try again."""


class UpdateReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far the device is with the newest desired document that it accepted, or how that ended."""

    epoch: Counter
    generation: Counter
    target: ReleaseReference
    state: UpdateState
    reason: Text = ""
    fetched_bytes: Counter = 0


class TrustReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the signed metadata looked to the device when it last asked for it."""

    at: Seconds
    """The time that expiry was judged by: the board's clock, or the newest signed time where that is later."""
    is_clock_behind: bool = False
    """It was the newest signed time."""
    root: Counter = 0
    """Version of the root metadata."""
    targets: Counter = 0
    expires_at: Seconds = 0.0
    """When the first of the metadata ends, after which the device installs nothing new."""
    trouble: Text = ""
    """Why it installs nothing new now; empty where it does."""
    revoked: Annotated[tuple[ModelName, ...], Meta(max_length=16)] = ()
    """Slots whose current release was revoked since it was installed: the device keeps it."""


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the device stands to releases of the agent itself."""

    machine: Label
    """As `uname -m` prints it."""
    python: Label
    """Version of the Python that runs it, such as 3.11."""
    state_format: Counter
    can_update: bool
    why_not: Text = ""
    """Where it can't update itself."""
    is_on_trial: bool = False
    """This agent goes back unless the fleet acknowledges this document."""


class Reported(Document, frozen=True, kw_only=True):
    """What a device runs, whole. The counter only grows; this document alone moves rollouts."""

    device: DeviceId
    counter: Counter
    stream: StreamId
    at: Seconds
    agent_version: Label
    profile: Label
    epoch: Counter = 0
    generation: Counter = 0
    slots: Annotated[tuple[SlotReport, ...], Meta(max_length=16)] = ()
    update: UpdateReport | None = None
    kind: BoardKind | None = None
    """None from an agent that doesn't tell."""
    trust: TrustReport | None = None
    """None from an agent that doesn't tell, or has not asked yet."""
    agent: AgentReport | None = None
    """None from an agent that is older than releases of the agent."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="kind"):
    """What a model said about one item of a source. The same item has the same `answer_id`, however often it is run."""

    answer_id: Sha256
    at: Seconds
    source: Label
    item: Label
    reference: ReleaseReference
    latency_ms: Seconds
    """From the item's bytes in memory to its answer, without time spent waiting for its turn."""
    answer: Parameters
    words: Text = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag="event", tag_field="kind"):
    """Something that a person may want to know: an update's step, a dead worker, a refused document."""

    at: Seconds
    name: Identifier
    detail: Text = ""
    generation: Counter = 0


class Telemetry(msgspec.Struct, frozen=True, kw_only=True, tag="telemetry", tag_field="kind"):
    """What was counted over some seconds, for one release."""

    from_at: Seconds
    to_at: Seconds
    reference: ReleaseReference
    answers: Counter
    errors: Counter
    latency_ms: Histogram
    deaths: Counter = 0
    """Of workers: however many of one item. Each has an event of its own, with signal, memory and engine."""


class Process(msgspec.Struct, frozen=True, kw_only=True, tag="process", tag_field="kind"):
    """Memory of one of the agent's processes, as the kernel counts it."""

    at: Seconds
    name: Identifier
    pss_bytes: Counter
    rss_bytes: Counter


class Tuned(msgspec.Struct, frozen=True, kw_only=True, tag="tuned", tag_field="kind"):
    """What tuning found out about one model on this board."""

    at: Seconds
    board: BoardKind
    model: ModelName
    reference: ReleaseReference
    objective: Objective
    choice: Candidate
    files: Annotated[tuple[Sha256, ...], Meta(min_length=1, max_length=64)]
    """Digests of the chosen variant's plaintext files, in its order."""
    measured: Annotated[tuple[MeasuredCandidate, ...], Meta(min_length=1, max_length=MAX_MEASURED)]
    """The best for the objective first; the choice is among them."""
    is_settled: bool
    """More rounds would hardly have changed who leads."""
    is_confirmed: bool = False
    """A choice that the fleet knew, which a short check found good here; else all candidates were compared."""


Row = Answer | Event | Telemetry | Process | Tuned


class Lost(msgspec.Struct, frozen=True):
    """Rows that a full outbox had to drop: the watermark moves over them, and they are counted as lost."""

    first: Sequence
    last: Sequence
    reason: Text


class Batch(Document, frozen=True, kw_only=True):
    """Rows `first`, `first` + 1, … of one stream of a device's outbox."""

    device: DeviceId
    stream: StreamId
    first: Sequence
    rows: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=MAX_BATCH_ROWS)]
    lost: Lost | None = None
    """Comes right before `first`."""


class Ack(Document, frozen=True, kw_only=True):
    """The fleet has committed every row of the stream up to `sequence`; 0 when it has none."""

    device: DeviceId
    stream: StreamId
    sequence: Counter
    reported: Counter = 0
    """Counter of the reported document of this stream that the fleet has committed, where an agent on trial sent it."""


class Presence(Document, frozen=True, kw_only=True):
    """Whether the device is connected: a hint for people. Its last will says offline."""

    online: bool
    stream: StreamId
    at: Seconds = 0.0


class EnrolmentRequest(Document, frozen=True, kw_only=True):
    """A board's three public keys, signed by the first of them; the token's secret is the bearer of the request."""

    name: Label
    profile: Label
    agent_version: Label
    identity_key: Bytes64
    """P-256; signs reports and batches."""
    hpke_key: Bytes64
    """X25519; content keys are sealed to it."""
    hybrid_key: Bytes64 | None = None
    """ML-KEM-768 with X25519 (`hybrid_key.py`): from a board whose profile wants content keys sealed to that."""
    csr: Text
    """PEM; for the P-256 key of TLS."""
    renews: bool = False
    """The agent renews its certificate by itself. One that doesn't say so gets a certificate that lasts for years."""


class EnrolmentResponse(Document, frozen=True, kw_only=True):
    """What a board needs from now on. The same token with the same keys gets the same answer until it ends."""

    device: DeviceId
    certificate: Text
    authority: Text
    root: Annotated[str, Meta(max_length=1 << 18)]
    """TUF root metadata in base64: the token holds the digest of these bytes."""
    broker_host: Label
    broker_port: Annotated[int, Meta(ge=1, le=65535)]
    devices_url: Label


Nonce = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_=-]{1,200}\Z")]
"""Text that the fleet gives out and recognises."""


class RenewalChallenge(Document, frozen=True, kw_only=True):
    """What a device must sign within the next minutes to get a certificate. Good for one request."""

    nonce: Nonce


class RenewalRequest(Document, frozen=True, kw_only=True):
    """A device asks for another certificate, signed by its identity key: it needs no certificate that still counts."""

    device: DeviceId
    nonce: Nonce
    """Of the challenge. It stands for the time, which a board may have wrong."""
    agent_version: Label
    csr: Text
    """PEM; for a P-256 key that was made for this certificate."""
    present_serial: Annotated[str, Meta(pattern=r"^[0-9a-f]{0,40}\Z")] = ""
    """Of the certificate that the device has on its disk, in hex: others that last longer may be revoked."""


class RenewalResponse(Document, frozen=True, kw_only=True):
    """A new certificate, and whom the device should trust from now on."""

    device: DeviceId
    certificate: Text
    authorities: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=8)]
    """PEM of every authority of the fleet that still counts."""
    links: Annotated[tuple[Text, ...], Meta(max_length=8)] = ()
    """PEM of an authority's key signed by the one before it (RFC 4210, 4.4: new with old), by which a device takes a
    newer authority for one of its fleet."""
    operators_url: Label
    """Where a device asks when its certificate has expired."""


def parse_row(raw: bytes) -> Row:
    """One row of a batch.

    Raises:
        Malformed: too long, of a kind that isn't known, or with a field of another type.
    """
    return decode_by(_ROW, raw, what="row", limit_bytes=MAX_BATCH_BYTES)


_ROW: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)
