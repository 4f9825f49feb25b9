"""How is a token made, and how is it spent exactly once, though power may go right after?

The answer is committed with the device and kept with the token, so that a board which lost it gets the same again.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from shoal_wire.encoding import encode
from shoal_wire.messages import EnrolmentResponse
from shoal_wire.token import EnrolmentToken, write_token
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import check_project
from shoal_fleet.access.roles import DEFAULT_PROJECT
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices.models import Device
from shoal_fleet.devices.service import find_active, keep_certificate, new_device_id, shut_out
from shoal_fleet.enrolment.models import EnrolmentTokenRow
from shoal_fleet.enrolment.rules import Claim
from shoal_fleet.errors import Conflict, NotAllowed
from shoal_fleet.labels.service import check_labels, move_labels, put_labels
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority
from shoal_fleet.pki.certificates import CLIENT_DAYS
from shoal_fleet.trust.service import find_root

MAX_SECRET_CHARACTERS = 128

TakeOver = Callable[[Session, Device, Device, float], None]
"""Gives a new device what an old one was assigned, in the caller's transaction, at a time in Unix seconds."""


class Addresses(msgspec.Struct, frozen=True):
    """Where the fleet's listeners are, as boards and operators reach them."""

    operators_url: str
    devices_url: str
    broker_host: str
    broker_port: int


def create_token(
    session: Session,
    *,
    name: str,
    ttl_s: int,
    addresses: Addresses,
    authority: Authorities,
    now: float,
    project: str = DEFAULT_PROJECT,
    replaces: str | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, float]:
    """Make a token for one new device of that name; returns it, for the only time, and when it ends.

    `replaces` is the id of the device whose place the new one takes: it is shut out when the new one enrols, in the
    project that it is in then, and the new one has its labels. Another has `labels`.

    Raises:
        NotFound: no such project.
        Conflict: there is such a device, or no publisher has registered, whose root the token must name.
        Refused: labels that can't be ones.
    """
    check_labels(labels)
    secret = secrets.token_urlsafe(32)
    with writing(session):
        check_project(session, project)
        _check_name_is_free(session, name, but=replaces)
        root = find_root(session)
        row = EnrolmentTokenRow(
            secret_sha256=_digest(secret),
            name=name,
            project=project,
            labels=json.dumps(dict(labels)),
            created_at=now,
            expires_at=now + ttl_s,
            replaces=replaces,
            authority_sha256=authority.fingerprint,
        )
        session.add(row)
    token = EnrolmentToken(
        url=addresses.operators_url,
        secret=secret,
        ca_sha256=authority.fingerprint,
        root_sha256=hashlib.sha256(root).hexdigest(),
    )
    return write_token(token), row.expires_at


def check_secret(session: Session, secret: str, *, now: float) -> None:
    """Make sure that a secret is that of a token, before anything else of the request is read.

    Raises:
        NotAllowed: of none, or of one that has ended. The message never repeats the secret.
    """
    _find_token(session, secret, now=now)


class Terms(NamedTuple):
    """What is the same for every board that enrols."""

    addresses: Addresses
    authority: Authorities
    renewed_days: int
    """How long the certificate lasts of an agent that renews it by itself."""
    take_over: TakeOver


class Enrolled(NamedTuple):
    """What the board is told, and the device that it has replaced just now, which must be shut out at once."""

    answer: bytes
    replaced: str | None


def enrol(session: Session, *, secret: str, claim: Claim, terms: Terms, now: float) -> Enrolled:
    """Make a device of a board that holds a token; `answer` is the JSON of its `EnrolmentResponse`.

    The same token with the same keys gets the same bytes again until it ends.

    Raises:
        NotAllowed: a token that isn't known, has ended or was spent by other keys; or the device is revoked.
        Conflict: another device has the name or the identity key, or the token names an authority that was retired.
        BadCsr: see `rules`.
    """
    with writing(session):
        token = _find_token(session, secret, now=now)
        if token.keys_sha256 is not None:
            return Enrolled(_answer_again(session, token, claim), None)
        authority = _find_authority(token, terms.authority)
        old = None if token.replaces is None else session.get(Device, token.replaces)
        if old is not None and old.revoked_at is None:
            shut_out(session, old, now=now)
        _check_name_is_free(session, token.name)
        _check_key_is_free(session, claim.request.identity_key)
        device = Device(
            id=new_device_id(),
            name=token.name,
            project=token.project if old is None else old.project,
            profile=claim.request.profile,
            agent_version=claim.request.agent_version,
            identity_key=claim.request.identity_key,
            hpke_key=claim.request.hpke_key,
            hybrid_key=claim.request.hybrid_key,
            enrolled_at=now,
            renews=claim.request.renews,
            replaces=token.replaces,
        )
        session.add(device)
        session.flush()
        put_labels(session, device.id, json.loads(token.labels))
        certificate = _issue_certificate(session, device, claim, authority, terms=terms, now=now)
        root = find_root(session, by=token.created_at)
        answer = _write_answer(device, certificate, root=root, authority=authority, addresses=terms.addresses)
        token.keys_sha256, token.device_id, token.answer = claim.keys_sha256, device.id, answer
        audit.append(
            session,
            actor=f"device:{device.id}",
            action="device.enrolled",
            subject=device.id,
            detail={"name": token.name},
            now=now,
        )
        if old is not None:
            _replace(session, old, device, take_over=terms.take_over, now=now)
    return Enrolled(answer, None if old is None else old.id)


def _find_token(session: Session, secret: str, *, now: float) -> EnrolmentTokenRow:
    digest = _digest(secret[:MAX_SECRET_CHARACTERS])
    token = session.get(EnrolmentTokenRow, digest)
    if token is None or not hmac.compare_digest(token.secret_sha256, digest):
        raise NotAllowed("enrolment token: not of this fleet")
    if now >= token.expires_at:
        ended = datetime.fromtimestamp(token.expires_at, UTC)
        raise NotAllowed(f"enrolment token for {token.name!r}: ended at {ended:%Y-%m-%d %H:%M:%S} UTC; make a new one")
    return token


def _answer_again(session: Session, token: EnrolmentTokenRow, claim: Claim) -> bytes:
    device = session.get(Device, token.device_id)
    assert device is not None and token.answer is not None and token.keys_sha256 is not None  # spent in one commit
    if not hmac.compare_digest(token.keys_sha256, claim.keys_sha256):
        raise NotAllowed(f"enrolment token for {token.name!r}: was spent by a board with other keys")
    if device.revoked_at is not None:
        raise NotAllowed(f"device {device.name!r} ({device.id}): is revoked")
    return token.answer


def _write_answer(
    device: Device, certificate: bytes, *, root: bytes, authority: Authority, addresses: Addresses
) -> bytes:
    return encode(
        EnrolmentResponse(
            device=device.id,
            certificate=certificate.decode(),
            authority=authority.certificate_pem.decode(),
            root=base64.b64encode(root).decode(),
            broker_host=addresses.broker_host,
            broker_port=addresses.broker_port,
            devices_url=addresses.devices_url,
        )
    )


def _issue_certificate(
    session: Session, device: Device, claim: Claim, authority: Authority, *, terms: Terms, now: float
) -> bytes:
    pem = authority.issue_client(
        claim.request.csr.encode(),
        device_id=device.id,
        now=datetime.fromtimestamp(now, UTC),
        valid_days=terms.renewed_days if claim.request.renews else CLIENT_DAYS,
    )
    keep_certificate(session, pem, device=device, issuer=authority, now=now)
    return pem


def _replace(session: Session, old: Device, new: Device, *, take_over: TakeOver, now: float) -> None:
    take_over(session, old, new, now)
    move_labels(session, old=old.id, new=new.id)
    detail = {"replaces": old.id, "name": new.name}
    audit.append(session, actor=f"device:{new.id}", action="device.replaced", subject=old.id, detail=detail, now=now)


def _find_authority(token: EnrolmentTokenRow, authorities: Authorities) -> Authority:
    """The one that the token names, as the board trusts no other yet."""
    authority = authorities.find(token.authority_sha256)
    if authority is None:
        raise Conflict(
            f"enrolment token for {token.name!r}: names an authority that was retired; make a new one with "
            "`shoal device token`"
        )
    return authority


def _check_name_is_free(session: Session, name: str, *, but: str | None = None) -> None:
    device = find_active(session, name=name)
    if device is not None and device.id != but:
        raise Conflict(f"device name {name!r}: is that of device {device.id}; revoke that one, or take another name")


def _check_key_is_free(session: Session, identity_key: str) -> None:
    device = session.scalar(select(Device).where(Device.identity_key == identity_key, Device.revoked_at.is_(None)))
    if device is not None:
        raise Conflict(f"identity key: is that of device {device.name!r} ({device.id}); revoke that one first")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
