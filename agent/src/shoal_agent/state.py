"""Where in the state folder is what, and which device does it belong to?

`device.json` is written last of all at enrolment: where it is, keys, certificate, authority and TUF root are too.
`slots.json` and `update.json` are described in `slots.py`.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, DeviceId, Label, Seconds, Sha256, decode, decode_struct
from shoal_wire.envelope import PublicKey, parse_public_key
from shoal_wire.errors import WireError
from shoal_wire.messages import AssignmentKeys, TrustReport

from shoal_agent.errors import NotEnrolled, StateDamaged
from shoal_agent.files import Files
from shoal_agent.own_trees import STATE_FORMAT
from shoal_agent.slots import AGENT_SLOT, JOURNAL, MAX_BYTES, SLOTS, AgentSlot, Journal, Slot, Slots

CONFIGURATION = "agent.toml"
DEVICE = "device.json"
AUTHORITY = "authority.pem"
CERTIFICATE = "tls.crt"
TUF_ROOT = Path("tuf") / "root.json"
TRUST = "trust.json"
AUTHORITIES = "authorities.json"
"""What the publisher signed of whom to trust as the fleet; none where it signed nothing of that."""
TIME = "time.json"
TRUST_REPORT = "trust-report.json"
DESIRED = "desired.dsse"
REPORT = "report.json"
OUTBOX = "outbox.db"
QUARANTINE = "quarantine.json"
LOCK = "daemon.lock"
RENEWAL_LOCK = "renewal.lock"


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Content of device.json: what the fleet gave this board, and what its owner called it."""

    format: Annotated[int, Meta(ge=1, le=STATE_FORMAT)] = STATE_FORMAT
    """Of the whole state folder: this file is read before the others, and what is newer is refused."""
    device: DeviceId
    name: Label
    profile: Label
    broker_host: Label
    broker_port: Annotated[int, Meta(ge=1, le=65535)]
    devices_url: Label
    token_sha256: Sha256
    """Of the token's secret, so that enrolling again with the same token is told from enrolling anew."""
    operators_url: Label = ""
    """Where to ask for a certificate once the present one has expired; empty where an older agent enrolled."""
    earlier_operators_urls: Annotated[tuple[Label, ...], Meta(max_length=2)] = ()
    """Where it was before: the first one that this board knew, and the last one before the present."""


class _Format(msgspec.Struct, frozen=True):
    """Of device.json, what every version of it has."""

    format: Counter = 1


def load_device(files: Files, state: Path) -> Device:
    """Which device this is.

    Raises:
        NotEnrolled: there is no device.json.
        StateDamaged: it can't be read, or a newer agent wrote this folder.
    """
    try:
        raw = files.read(state / DEVICE)
        written = decode_struct(raw, _Format, what=DEVICE).format
        if written > STATE_FORMAT:
            raise StateDamaged(
                f"{state}: a newer agent has written it, in format {written}, and this one reads up to {STATE_FORMAT}: "
                "install the newer agent again"
            )
        return decode_struct(raw, Device, what=DEVICE)
    except FileNotFoundError:
        raise NotEnrolled(f"{state} holds no {DEVICE}: enrol this board first, with shoal-agent enrol TOKEN") from None
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None


def load_trusted_keys(files: Files, state: Path) -> tuple[PublicKey, ...]:
    """The keys that may sign desired documents and acknowledgements; none before TUF metadata was first fetched.

    Raises:
        StateDamaged: trust.json can't be read.
    """
    try:
        document = decode(files.read(state / TRUST), AssignmentKeys, what=TRUST)
        return tuple(parse_public_key(key, what=TRUST) for key in document.keys)
    except FileNotFoundError:
        return ()
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None


def load_trust_report(files: Files, state: Path) -> TrustReport | None:
    """How the signed metadata looked to the updater; None before it first did.

    Raises:
        StateDamaged: trust-report.json can't be read.
    """
    try:
        return decode_struct(files.read(state / TRUST_REPORT), TrustReport, what=TRUST_REPORT)
    except FileNotFoundError:
        return None
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None


class _Vouched(msgspec.Struct, frozen=True):
    """Of time.json, what the updater keeps there of the fleet's own keys."""

    online_at: Seconds = 0.0


def load_vouched_time(files: Files, state: Path) -> float:
    """The newest time that the fleet's keys signed, in Unix seconds; 0 where none is known, or it can't be read."""
    try:
        return decode_struct(files.read(state / TIME), _Vouched, what=TIME).online_at
    except (FileNotFoundError, WireError):
        return 0.0


def load_slots(files: Files, state: Path) -> Slots:
    """The releases that the device holds; none before its first update.

    Raises:
        StateDamaged: slots.json can't be read.
    """
    try:
        return decode_struct(files.read(state / SLOTS), Slots, what=SLOTS, limit_bytes=MAX_BYTES)
    except FileNotFoundError:
        return Slots()
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None


def load_agent_slot(files: Files, state: Path) -> Slot:
    """The releases of the agent that the device holds; none before its first update of itself.

    Raises:
        StateDamaged: agent.json can't be read.
    """
    try:
        raw = files.read(state / AGENT_SLOT)
        return decode_struct(raw, AgentSlot, what=AGENT_SLOT, limit_bytes=MAX_BYTES).slot
    except FileNotFoundError:
        return Slot()
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None


def load_journal(files: Files, state: Path) -> Journal | None:
    """The update in progress, or how the last one ended; None before the first.

    Raises:
        StateDamaged: update.json can't be read.
    """
    try:
        return decode_struct(files.read(state / JOURNAL), Journal, what=JOURNAL, limit_bytes=MAX_BYTES)
    except FileNotFoundError:
        return None
    except WireError as error:
        raise StateDamaged(f"{state}: {error}") from None
