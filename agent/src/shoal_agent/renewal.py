"""How does a device get its next certificate, so that power may go at any instant?

A new key is made and on the disk before the fleet is asked. Key and certificate take the place of the present pair in
one write, after the authorities of the fleet; only then does the waiting file go. The request is signed by the identity
key over a nonce of the fleet: it needs neither a certificate that counts nor a clock that is right. So a board that was
off for years comes back by itself, over the listener for operators and enrolment.

Run as a program by the daemon, which itself goes without an HTTP client: `python -m shoal_agent.renewal --state DIR`.
"""

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from shoal_wire import envelope, paths
from shoal_wire.certificate import parse_certificate, parse_certificate_der, parse_certificates
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import KeySigner
from shoal_wire.errors import Malformed, WireError
from shoal_wire.messages import RenewalChallenge, RenewalRequest, RenewalResponse

from shoal_agent.credentials import (
    Lifetime,
    clock_is_plausible,
    find_credentials,
    make_context,
    read_lifetime,
    trusting,
)
from shoal_agent.enrolment import make_csr
from shoal_agent.errors import AgentError, FleetRefused, FleetUnreachable, StateDamaged
from shoal_agent.files import DiskFiles, Files
from shoal_agent.fleet_https import Answer, Question, ask
from shoal_agent.keys import NEXT_TLS, PAIR, DeviceKeys, load_keys, load_tls_key, make_tls_key
from shoal_agent.state import AUTHORITY, DEVICE, RENEWAL_LOCK, Device, load_device
from shoal_agent.succession import follow_authorities, is_issued_by

MAX_RESPONSE_BYTES = 256 << 10

OK = 0
REFUSED = 1
TRY_LATER = 75


class Checked(NamedTuple):
    """An answer that is for this device and its new key, by its fleet."""

    certificate: x509.Certificate
    authorities: tuple[x509.Certificate, ...]
    operators_url: str


def renew(files: Files, state: Path, *, agent_version: str, now: float) -> Lifetime:
    """Get a certificate for a new key, and make both the device's own. `now` is in Unix seconds by the board's clock.

    Raises:
        NotEnrolled, StateDamaged, IdentityUnavailable: see `state.py` and `keys.py`.
        FleetUnreachable: try again later.
        FleetRefused: the device is held or revoked, or the answer isn't one of its fleet.
    """
    with _alone(state):
        device, keys = load_device(files, state), load_keys(files, state)
        lifetime = read_lifetime(files, state)
        key = _next_key(files, state)
        trusted = _load_authorities(files, state)
        request = RenewalRequest(
            device=device.device,
            nonce="0" * 16,
            agent_version=agent_version,
            csr=make_csr(key),
            present_serial=lifetime.serial,
        )
        answer = _ask_either(files, state, device, request=request, keys=keys, lifetime=lifetime, now=now)
        checked = check_answer(answer, device=device.device, key=key, trusted=trusted)
        _keep(files, state, checked, device=device, key=key, trusted=trusted)
    return read_lifetime(files, state)


def check_answer(
    answer: Answer, *, device: str, key: ec.EllipticCurvePrivateKey, trusted: Sequence[x509.Certificate]
) -> Checked:
    """Make sure that an answer is for this device and key, by an authority of its fleet.

    Raises:
        FleetRefused: it isn't.
    """
    try:
        response = decode(answer.body, RenewalResponse, what="the fleet's answer", limit_bytes=MAX_RESPONSE_BYTES)
        certificate = parse_certificate(response.certificate.encode(), what="certificate")
        offered, links = (
            [parse_certificate(pem.encode(), what="authority") for pem in pems]
            for pems in (response.authorities, response.links)
        )
        server = parse_certificate_der(answer.server, what="server's certificate")
    except WireError as error:
        raise FleetRefused(f"renewal: the fleet's answer can't be read: {error}") from None
    names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [device] or response.device != device:
        raise FleetRefused(f"renewal: expected a certificate for {device}, found one for {', '.join(names)[:64]}")
    if certificate.public_key() != key.public_key():
        raise FleetRefused("renewal: expected a certificate for this board's new key, found one for another")
    authorities = follow_authorities(trusted, offered=offered, links=links, server=server)
    if not is_issued_by(certificate, authorities):
        raise FleetRefused("renewal: expected a certificate by an authority of this fleet, found one by another")
    return Checked(certificate, authorities, response.operators_url)


def _ask_either(
    files: Files,
    state: Path,
    device: Device,
    *,
    request: RenewalRequest,
    keys: DeviceKeys,
    lifetime: Lifetime,
    now: float,
) -> Answer:
    """Ask on the devices' listener with the present certificate; else, or where that fails, on the other one."""
    credentials = find_credentials(files, state)
    checks_time = clock_is_plausible(lifetime, now=now)
    signer = KeySigner(keys.identity)
    try:
        listeners = [(device.devices_url, make_context(credentials, checks_time=checks_time))]
        if device.operators_url:
            listeners.append((device.operators_url, trusting(credentials.authority, checks_time=checks_time)))
    except OSError as error:
        raise StateDamaged(f"{state}: authority, certificate or key of TLS can't be read: {error}") from None
    failures = []
    for url, context in listeners:
        try:
            asked = ask(url, Question("GET", paths.RENEWAL_CHALLENGE), context=context, limit_bytes=MAX_RESPONSE_BYTES)
            nonce = decode(asked.body, RenewalChallenge, what="challenge", limit_bytes=MAX_RESPONSE_BYTES).nonce
            body = envelope.seal(encode(msgspec.structs.replace(request, nonce=nonce)), envelope.RENEWAL, signer)
            question = Question("POST", paths.RENEWAL, body=body)
            return ask(url, question, context=context, limit_bytes=MAX_RESPONSE_BYTES)
        except FleetUnreachable as error:
            failures.append(str(error))
        except WireError as error:
            raise FleetRefused(f"{url}: {error}") from None
    raise FleetUnreachable("; ".join(failures))


def _next_key(files: Files, state: Path) -> ec.EllipticCurvePrivateKey:
    """A key that no certificate is for yet: the one that waits since a renewal was cut short, else a new one."""
    waiting, used = load_tls_key(files, state / NEXT_TLS), load_tls_key(files, state / PAIR)
    if waiting is not None and (used is None or waiting.public_key() != used.public_key()):
        return waiting
    return make_tls_key(files, state / NEXT_TLS)


def _keep(
    files: Files,
    state: Path,
    checked: Checked,
    *,
    device: Device,
    key: ec.EllipticCurvePrivateKey,
    trusted: Sequence[x509.Certificate],
) -> None:
    if list(checked.authorities) != list(trusted):
        files.write(state / AUTHORITY, b"".join(_pem(one) for one in checked.authorities))
    if checked.operators_url != device.operators_url:
        files.write(state / DEVICE, encode(msgspec.structs.replace(device, operators_url=checked.operators_url)))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.write(state / PAIR, key_pem + _pem(checked.certificate))
    files.remove(state / NEXT_TLS)


def _load_authorities(files: Files, state: Path) -> list[x509.Certificate]:
    try:
        return parse_certificates(files.read(state / AUTHORITY), what=str(state / AUTHORITY))
    except FileNotFoundError:
        raise StateDamaged(f"{state / AUTHORITY}: expected certificates in PEM, found no file") from None
    except Malformed as error:
        raise StateDamaged(str(error)) from None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """One renewal of a state folder at a time."""
    descriptor = os.open(state / RENEWAL_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise FleetUnreachable(f"{state}: another renewal is under way") from None
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Renew once; says the outcome in one line on standard error and by its exit code."""
    parser = argparse.ArgumentParser(prog="python -m shoal_agent.renewal")
    parser.add_argument("--state", type=Path, required=True)
    state = parser.parse_args(arguments).state
    try:
        lifetime = renew(DiskFiles(), state, agent_version=version("shoal-agent"), now=time.time())
    except FleetUnreachable as error:
        print(error, file=sys.stderr)
        return TRY_LATER
    except (AgentError, WireError, OSError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    print(f"good until {lifetime.not_after:%Y-%m-%d %H:%M:%S} UTC", file=sys.stderr)
    return OK


if __name__ == "__main__":
    sys.exit(main())
