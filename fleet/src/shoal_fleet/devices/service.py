"""Which devices are there, what did they last say, and which are shut out?"""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.envelope import PublicKey
from shoal_wire.errors import Untrusted
from shoal_wire.messages import Reported
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices import clones
from shoal_fleet.devices.clones import Lineage
from shoal_fleet.devices.models import Device, DeviceCertificate, DeviceSlot
from shoal_fleet.errors import Conflict, NotAllowed, NotFound
from shoal_fleet.pki.authority import Authority, read_certificate

CLONED = "two boards speak with its keys"


def new_device_id() -> str:
    """An opaque id of 80 random bits."""
    return "d-" + base64.b32encode(secrets.token_bytes(10)).decode().lower()


def parse_identity_key(text: str) -> ec.EllipticCurvePublicKey:
    """The key by which a device signs.

    Raises:
        Malformed: no key.
        Untrusted: not one on P-256.
    """
    key = envelope.parse_public_key(text, what="identity key")
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Untrusted("identity key: expected a P-256 key, found Ed25519")
    return key


def identity_key(device: Device) -> PublicKey:
    """The key by which this device signs."""
    return parse_identity_key(device.identity_key)


def list_devices(session: Session) -> Sequence[Device]:
    """All devices by name, revoked ones last."""
    return session.scalars(select(Device).order_by(Device.revoked_at.is_not(None), Device.name, Device.id)).all()


def find_device(session: Session, id_or_name: str) -> Device:
    """The device of that id, or the one of that name which isn't revoked.

    Raises:
        NotFound: neither.
    """
    device = session.get(Device, id_or_name) or find_active(session, name=id_or_name)
    if device is None:
        raise NotFound(f"device {id_or_name[:200]!r}: expected the id or the name of a device, found none")
    return device


def find_active(session: Session, *, name: str) -> Device | None:
    """The device of that name which isn't revoked."""
    return session.scalar(select(Device).where(Device.name == name, Device.revoked_at.is_(None)))


def find_speaker(session: Session, device_id: str) -> Device:
    """The device of that id, if it has a say.

    Raises:
        NotFound: no such device.
        NotAllowed: it is revoked.
    """
    device = session.get(Device, device_id)
    if device is None:
        raise NotFound(f"device {device_id!r}: not of this fleet")
    if device.revoked_at is not None:
        raise NotAllowed(f"device {device.name!r} ({device_id}): is revoked")
    return device


def record_reported(session: Session, *, device_id: str, raw: bytes, now: float) -> Reported | None:
    """Keep the signed document of what a device runs, in the caller's transaction.

    Returns what it says, or None where its counter isn't above that of the last one: a replay, or one that was
    overtaken. A device whose reports show that two boards have its keys is held (`clones.py`).

    Raises:
        NotFound: no such device.
        NotAllowed: it is revoked.
        Malformed, Unsupported: not a reported document.
        Untrusted: not signed by this device, or of another device.
    """
    device = find_speaker(session, device_id)
    reported = _read_reported(device, raw)
    _watch_lineage(session, device, reported, now=now)
    if reported.counter <= device.reported_counter:
        return None
    device.reported_counter = reported.counter
    device.reported_envelope = raw
    device.reported_at = device.last_seen_at = now
    device.reported_epoch = reported.epoch
    device.reported_generation = reported.generation
    device.agent_version = reported.agent_version
    device.profile = reported.profile
    device.fingerprint = None if reported.kind is None else reported.kind.fingerprint
    _keep_slots(session, device, reported)
    return reported


def last_reported(device: Device) -> Reported | None:
    """What the device last said that it runs, None if it never did. Verified when it came, and here again."""
    return None if device.reported_envelope is None else _read_reported(device, device.reported_envelope)


def record_presence(session: Session, *, device_id: str, is_online: bool) -> None:
    """Keep what the broker says of a device's connection, in the caller's transaction.

    Raises:
        NotFound: no such device.
        NotAllowed: it is revoked.
    """
    find_speaker(session, device_id).is_online = is_online


def keep_certificate(
    session: Session, pem: bytes, *, device: Device, issuer: Authority, now: float
) -> DeviceCertificate:
    """Record a certificate that was just issued to a device, in the caller's transaction."""
    facts = read_certificate(pem)
    row = DeviceCertificate(
        serial=f"{facts.serial:x}",
        device_id=device.id,
        not_after=facts.not_after.timestamp(),
        authority_sha256=issuer.fingerprint,
        issued_at=now,
    )
    session.add(row)
    return row


def revoke(session: Session, id_or_name: str, *, actor: str, now: float) -> Device:
    """Shut a device out for good. Whoever calls this must make revocation list and access rules anew.

    Raises:
        NotFound: no such device.
        Conflict: it is revoked already.
    """
    with writing(session):
        device = find_device(session, id_or_name)
        if device.revoked_at is not None:
            raise Conflict(f"device {device.name!r} ({device.id}): is revoked already")
        shut_out(session, device, now=now)
        audit.append(session, actor=actor, action="device.revoked", subject=device.id, detail={}, now=now)
    return device


def shut_out(session: Session, device: Device, *, now: float) -> None:
    """Mark a device and all its certificates revoked, in the caller's transaction."""
    device.revoked_at = now
    device.is_online = False
    for certificate in session.scalars(select(DeviceCertificate).where(DeviceCertificate.device_id == device.id)):
        certificate.revoked_at = certificate.revoked_at or now
    session.flush()


def certificate_ends(session: Session) -> dict[str, float]:
    """By device id: when the last certificate that isn't revoked ends, in Unix seconds."""
    rows = session.execute(
        select(DeviceCertificate.device_id, func.max(DeviceCertificate.not_after))
        .where(DeviceCertificate.revoked_at.is_(None))
        .group_by(DeviceCertificate.device_id)
    )
    return {row[0]: row[1] for row in rows}


def count_certificates(session: Session, *, now: float) -> dict[str | None, int]:
    """How many certificates still count, by the authority that issued them; None stands for the first one."""
    rows = session.execute(
        select(DeviceCertificate.authority_sha256, func.count())
        .where(DeviceCertificate.revoked_at.is_(None), DeviceCertificate.not_after >= now)
        .group_by(DeviceCertificate.authority_sha256)
    )
    return {row[0]: row[1] for row in rows}


def revoked_certificates(session: Session, *, now: float) -> list[tuple[int, datetime]]:
    """Serial and time of revocation of every certificate that would else still count."""
    rows = session.scalars(
        select(DeviceCertificate).where(DeviceCertificate.revoked_at.is_not(None), DeviceCertificate.not_after >= now)
    )
    return [(int(row.serial, 16), datetime.fromtimestamp(row.revoked_at or now, UTC)) for row in rows]


def revoked_devices(session: Session) -> Sequence[str]:
    """Ids of all revoked devices."""
    return session.scalars(select(Device.id).where(Device.revoked_at.is_not(None)).order_by(Device.id)).all()


def read_lineage(device: Device) -> Lineage:
    """Which starts of the device's daemon were heard lately."""
    return Lineage() if device.lineage is None else msgspec.json.decode(device.lineage, type=Lineage)


def _watch_lineage(session: Session, device: Device, reported: Reported, *, now: float) -> None:
    before = read_lineage(device)
    lineage = clones.hear(before, stream=reported.stream, counter=reported.counter, now=now)
    if lineage is before:
        return
    device.lineage = msgspec.json.encode(lineage).decode()
    if device.held_at is None and clones.is_cloned(lineage, now=now):
        device.held_at, device.held_reason = now, CLONED
        detail = {"reason": CLONED, "turns": len(lineage.turns)}
        audit.append(session, actor=audit.FLEET, action="device.held", subject=device.id, detail=detail, now=now)


def _keep_slots(session: Session, device: Device, reported: Reported) -> None:
    """Keep what a report says that the device runs where a query finds it."""
    current = {slot.release: slot.current for slot in reported.slots if slot.current is not None}
    for row in session.scalars(select(DeviceSlot).where(DeviceSlot.device_id == device.id)):
        now = current.pop(row.release, None)
        if now is None:
            session.delete(row)
        else:
            row.version, row.manifest_sha256 = now.version, now.manifest_sha256
    session.add_all(
        DeviceSlot(device_id=device.id, release=name, version=one.version, manifest_sha256=one.manifest_sha256)
        for name, one in current.items()
    )


def _read_reported(device: Device, raw: bytes) -> Reported:
    what = f"reported document of device {device.id}"
    payload = envelope.verify(raw, envelope.REPORTED, [identity_key(device)], what=what)
    reported = decode(payload, Reported, what=what)
    if reported.device != device.id:
        raise Untrusted(f"{what}: names the device {reported.device}")
    return reported
