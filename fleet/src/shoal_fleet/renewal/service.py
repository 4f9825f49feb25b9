"""How does a device get its next certificate by nothing but its identity key?

A nonce of the fleet stands for the time, which a board may have wrong. Held devices wait, revoked ones are refused;
either is told only to one who has proved to be that device.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from shoal_wire import envelope
from shoal_wire.encoding import DeviceId, decode, decode_struct, encode
from shoal_wire.messages import RenewalRequest, RenewalResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.devices.service import find_speaker, identity_key, keep_certificate
from shoal_fleet.errors import Conflict, NotAllowed, NotFound
from shoal_fleet.pki.authorities import Authorities

MAX_REQUEST_BYTES = 64 << 10

_WHAT = "request to renew"


class Proven(NamedTuple):
    """A request whose signature is that of the device which it names."""

    request: RenewalRequest
    device_id: str


class Renewed(NamedTuple):
    """What the device is told, and whether certificates were revoked for it: then the list must be made anew."""

    answer: bytes
    has_revoked: bool


class Terms(NamedTuple):
    """What is the same for every device."""

    authorities: Authorities
    operators_url: str
    valid_days: int


def read_request(session: Session, raw: bytes) -> Proven:
    """Verify a signed request by the key of the device that it names.

    Raises:
        Malformed, Unsupported: not a request to renew.
        Untrusted: not signed by that device.
        NotAllowed: no such device, or it is revoked.
    """
    device_id = _claimed_device(raw)
    device = session.get(Device, device_id)
    if device is None:
        raise NotAllowed(f"device {device_id}: not of this fleet; it must be enrolled")
    payload = envelope.verify(raw, envelope.RENEWAL, [identity_key(device)], what=_WHAT, limit_bytes=MAX_REQUEST_BYTES)
    request = decode(payload, RenewalRequest, what=_WHAT, limit_bytes=MAX_REQUEST_BYTES)
    find_speaker(session, device_id)
    return Proven(request, device_id)


def renew(session: Session, proven: Proven, *, terms: Terms, now: float) -> Renewed:
    """Issue a certificate to a device. Whoever calls this has spent the request's nonce.

    Certificates that would outlast the new one are revoked, save for the one that the device has on its disk: were
    the new one lost on its way, it still had that.

    Raises:
        Conflict: the device is held.
        NotAllowed: it was revoked meanwhile.
        BadCsr: its signing request isn't one for a P-256 key.
    """
    request = proven.request
    with writing(session):
        device = _find_free(session, proven.device_id)
        pem = terms.authorities.issue_client(
            request.csr.encode(),
            device_id=device.id,
            now=datetime.fromtimestamp(now, UTC),
            valid_days=terms.valid_days,
        )
        kept = keep_certificate(session, pem, device=device, issuer=terms.authorities.issuer, now=now)
        device.renews, device.agent_version = True, request.agent_version
        outlasting = _outlasting(session, device, ends_at=kept.not_after, present=request.present_serial)
        for certificate in outlasting:
            certificate.revoked_at = now
        audit.append(
            session,
            actor=f"device:{device.id}",
            action="certificate.renewed",
            subject=device.id,
            detail={"serial": kept.serial, "revoked": [one.serial for one in outlasting]},
            now=now,
        )
    answer = RenewalResponse(
        device=proven.device_id,
        certificate=pem.decode(),
        authorities=terms.authorities.trusted,
        links=terms.authorities.links,
        operators_url=terms.operators_url,
    )
    return Renewed(encode(answer), has_revoked=bool(outlasting))


def _find_free(session: Session, device_id: str) -> Device:
    try:
        device = find_speaker(session, device_id)
    except NotFound as error:
        raise NotAllowed(str(error)) from None
    if device.held_at is not None:
        raise Conflict(
            f"device {device.name!r} ({device.id}): is held ({device.held_reason}); an operator must decide: "
            "`shoal device release-hold`, or `shoal device replace`"
        )
    return device


def _outlasting(session: Session, device: Device, *, ends_at: float, present: str) -> Sequence[DeviceCertificate]:
    """Certificates of the device that count for longer than until `ends_at`, without the one of serial `present`."""
    return session.scalars(
        select(DeviceCertificate).where(
            DeviceCertificate.device_id == device.id,
            DeviceCertificate.revoked_at.is_(None),
            DeviceCertificate.not_after > ends_at,
            DeviceCertificate.serial != present,
        )
    ).all()


class _Outside(msgspec.Struct, frozen=True):
    payload: bytes


class _Inside(msgspec.Struct, frozen=True):
    device: DeviceId


def _claimed_device(raw: bytes) -> str:
    """The device that the request names. Nothing else is taken from it before its key has verified the signature."""
    outside = decode_struct(raw, _Outside, what=_WHAT, limit_bytes=2 * MAX_REQUEST_BYTES)
    return decode_struct(outside.payload, _Inside, what=_WHAT, limit_bytes=MAX_REQUEST_BYTES).device
