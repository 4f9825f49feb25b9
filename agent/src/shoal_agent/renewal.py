"""How does a device get its next certificate, so that power may go at any instant?

A new key is made and on the disk before the fleet is asked. Key and certificate take the place of the present pair in
one write, after the authorities of the fleet; only then does the waiting file go. The request is signed by the identity
key over a nonce of the fleet: it needs neither a certificate that counts nor a clock that is right. So a board that was
off for years comes back by itself, over the listener for operators and enrolment. It is asked where it was known first,
then where the fleet said that it went: whoever had taken the fleet over may have said so, and still answer there.

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
from shoal_wire.certificate import parse_certificate
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import KeySigner
from shoal_wire.errors import WireError
from shoal_wire.messages import RenewalChallenge, RenewalRequest, RenewalResponse

from shoal_agent.credentials import Lifetime, judging_time, load_authorities, make_context, read_lifetime
from shoal_agent.enrolment import make_csr
from shoal_agent.errors import AgentError, FleetRefused, FleetUnreachable, WrongServer
from shoal_agent.files import DiskFiles, Files
from shoal_agent.fleet_https import Question, ask
from shoal_agent.fleet_tls import FleetContext, trusting
from shoal_agent.keys import NEXT_TLS, PAIR, DeviceKeys, load_keys, load_tls_key, make_tls_key
from shoal_agent.state import AUTHORITIES, AUTHORITY, DEVICE, RENEWAL_LOCK, Device, load_device
from shoal_agent.succession import find_vouched, is_issued_by, remember_address, trust_beside

MAX_RESPONSE_BYTES = 256 << 10

OK = 0
REFUSED = 1
TRY_LATER = 75


class Checked(NamedTuple):
    """An answer that is for this device and its new key, by its fleet."""

    certificate: x509.Certificate
    vouched: tuple[x509.Certificate, ...]
    """Of the authorities that the fleet named, those that lead back to one that the device trusts."""
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
        trusted = load_authorities(files, state)
        request = RenewalRequest(
            device=device.device,
            nonce="0" * 16,
            agent_version=agent_version,
            csr=make_csr(key),
            present_serial=lifetime.serial,
        )
        listeners = _listeners(files, state, device, trusted=trusted, at=judging_time(files, state, now=now))
        answer = _ask_any(listeners, request=request, keys=keys)
        checked = check_answer(answer, device=device.device, key=key, trusted=trusted)
        _keep(files, state, checked, device=device, key=key, trusted=trusted)
    return read_lifetime(files, state)


def check_answer(
    answer: bytes, *, device: str, key: ec.EllipticCurvePrivateKey, trusted: Sequence[x509.Certificate]
) -> Checked:
    """Make sure that an answer is for this device and key, by an authority of its fleet.

    Raises:
        FleetRefused: it isn't.
    """
    try:
        response = decode(answer, RenewalResponse, what="the fleet's answer", limit_bytes=MAX_RESPONSE_BYTES)
        certificate = parse_certificate(response.certificate.encode(), what="certificate")
        offered, links = (
            [parse_certificate(pem.encode(), what="authority") for pem in pems]
            for pems in (response.authorities, response.links)
        )
    except WireError as error:
        raise FleetRefused(f"renewal: the fleet's answer can't be read: {error}") from None
    names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [device] or response.device != device:
        raise FleetRefused(f"renewal: expected a certificate for {device}, found one for {', '.join(names)[:64]}")
    if certificate.public_key() != key.public_key():
        raise FleetRefused("renewal: expected a certificate for this board's new key, found one for another")
    vouched = find_vouched(trusted, offered=offered, links=links)
    if not is_issued_by(certificate, vouched):
        raise FleetRefused("renewal: expected a certificate by an authority of this fleet, found one by another")
    return Checked(certificate, vouched, response.operators_url)


def _listeners(
    files: Files, state: Path, device: Device, *, trusted: Sequence[x509.Certificate], at: float
) -> list[tuple[str, FleetContext]]:
    """Whom to ask, in order: the devices' listener with the present certificate, and the other one without."""
    without = trusting(trusted, at=at)
    urls = dict.fromkeys(filter(None, (*device.earlier_operators_urls, device.operators_url)))
    return [(device.devices_url, make_context(files, state, at=at)), *((url, without) for url in urls)]


def _ask_any(listeners: Sequence[tuple[str, FleetContext]], *, request: RenewalRequest, keys: DeviceKeys) -> bytes:
    """The answer of the first who has one.

    Raises:
        FleetUnreachable: nobody has one now.
        WrongServer: all who answer are other servers.
        FleetRefused: one of the fleet said no.
    """
    failures: list[str] = []
    kind: type[AgentError] = WrongServer
    for url, context in listeners:
        try:
            return _ask(url, context, request=request, signer=KeySigner(keys.identity))
        except WrongServer as error:
            failures.append(f"{url}: {error}")
        except FleetUnreachable as error:
            failures.append(str(error))
            kind = FleetUnreachable
        except WireError as error:
            raise FleetRefused(f"{url}: {error}") from None
    raise kind("; ".join(failures))


def _ask(url: str, context: FleetContext, *, request: RenewalRequest, signer: KeySigner) -> bytes:
    asked = ask(url, Question("GET", paths.RENEWAL_CHALLENGE), context=context, limit_bytes=MAX_RESPONSE_BYTES)
    nonce = decode(asked, RenewalChallenge, what="challenge", limit_bytes=MAX_RESPONSE_BYTES).nonce
    body = envelope.seal(encode(msgspec.structs.replace(request, nonce=nonce)), envelope.RENEWAL, signer)
    return ask(url, Question("POST", paths.RENEWAL, body=body), context=context, limit_bytes=MAX_RESPONSE_BYTES)


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
    authorities = trust_beside(trusted, checked.vouched)
    if list(authorities) != list(trusted) and not files.size(state / AUTHORITIES):
        files.write(state / AUTHORITY, b"".join(_pem(one) for one in authorities))
    earlier, url = remember_address(
        device.earlier_operators_urls, present=device.operators_url, told=checked.operators_url
    )
    if url != device.operators_url:
        moved = msgspec.structs.replace(device, operators_url=url, earlier_operators_urls=earlier)
        files.write(state / DEVICE, encode(moved))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.write(state / PAIR, key_pem + _pem(checked.certificate))
    files.remove(state / NEXT_TLS)


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
