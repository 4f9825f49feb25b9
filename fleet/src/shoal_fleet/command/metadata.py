"""What does a publisher sign? Rules over TUF metadata; no file and no connection.

The fleet is not trusted here: what it offers as the current targets must bear the publisher's own signature, and must
not be older than what the publisher signed last, or a taken-over fleet could have entries added or revocations
forgotten.
"""

import base64
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner, SSlibKey
from shoal_wire.encoding import encode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, AssignmentKeys
from tuf.api.metadata import Metadata, Root, TargetFile, Targets
from tuf.api.serialization import DeserializationError

from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.publisher import FleetKeys

_Signed = TypeVar("_Signed", Root, Targets)

ROOT_LIFETIME = timedelta(days=365)
TARGETS_LIFETIME = timedelta(days=90)


def first_root(root: CryptoSigner, targets: CryptoSigner, fleet: FleetKeys, *, now: datetime) -> bytes:
    """Root metadata, version 1: which key counts for which role."""
    content = Root(expires=_expiry(now, ROOT_LIFETIME), consistent_snapshot=True)
    content.add_key(root.public_key, Root.type)
    content.add_key(targets.public_key, Targets.type)
    content.add_key(_online_key(fleet.snapshot), "snapshot")
    content.add_key(_online_key(fleet.timestamp), "timestamp")
    metadata = Metadata(content)
    metadata.sign(root)
    return metadata.to_bytes()


def first_targets(signer: CryptoSigner, fleet: FleetKeys, *, now: datetime) -> tuple[bytes, bytes]:
    """Targets metadata, version 1, and its only target: the key that signs assignments."""
    keys = encode(AssignmentKeys(keys=(fleet.assignment,)))
    content = Targets(expires=_expiry(now, TARGETS_LIFETIME))
    content.targets[ASSIGNMENT_KEYS_PATH] = _describe(ASSIGNMENT_KEYS_PATH, keys)
    metadata = Metadata(content)
    metadata.sign(signer)
    return metadata.to_bytes(), keys


def check_root(root: bytes, signer: CryptoSigner) -> None:
    """Make sure that the root metadata which the fleet trusts is this publisher's.

    Raises:
        CommandError: it isn't.
    """
    _verified(root, signer, what="the root metadata that the fleet trusts", kind=Root)


def verify_current(current: bytes, last_signed: bytes | None, signer: CryptoSigner) -> Metadata[Targets]:
    """The targets metadata that the fleet offers as the present one, to be built upon.

    A version above the last one known here is accepted: the fleet's answer may have been lost, or this folder be a
    copy of an earlier day.

    Raises:
        CommandError: it isn't this publisher's, or is older than the last one signed, or another of the same number.
    """
    offered = _verified(current, signer, what="the fleet's targets metadata", kind=Targets)
    if last_signed is None:
        return offered
    last = _verified(last_signed, signer, what="the last targets metadata signed here", kind=Targets).signed.version
    version = offered.signed.version
    if version < last or (version == last and current != last_signed):
        which = f"version {version}" if version < last else f"another version {version}"
        raise CommandError(
            f"the fleet offers {which} of the targets metadata, but version {last} was signed here before: the fleet "
            "was restored from an old copy or taken over; nothing was signed"
        )
    return offered


def lists(current: Metadata[Targets], path: str, manifest: bytes) -> bool:
    """Whether that very manifest was released before.

    Raises:
        CommandError: another one was released at that path.
    """
    present = current.signed.targets.get(path)
    if present is None:
        return False
    if present != _describe(path, manifest):
        raise CommandError(f"{path} was released before with other content: a release never changes, raise its version")
    return True


def add_release(
    current: Metadata[Targets], signer: CryptoSigner, *, path: str, manifest: bytes, now: datetime
) -> tuple[bytes, int]:
    """The next version of the targets metadata, with one more release, and its number. Changes `current`."""
    current.signed.targets[path] = _describe(path, manifest)
    current.signed.version += 1
    current.signed.expires = _expiry(now, TARGETS_LIFETIME)
    current.sign(signer)
    return current.to_bytes(), current.signed.version


def _verified(raw: bytes, signer: CryptoSigner, *, what: str, kind: type[_Signed]) -> Metadata[_Signed]:
    try:
        metadata: Metadata[_Signed] = Metadata.from_bytes(raw)
        if not isinstance(metadata.signed, kind):
            raise CommandError(f"{what}: expected the role {kind.type}, found {metadata.signed.type}")
        signer.public_key.verify_signature(metadata.signatures[signer.public_key.keyid], metadata.signed_bytes)
    except (DeserializationError, RecursionError) as error:
        raise CommandError(f"{what}: not readable as TUF metadata: {error}") from None
    except (KeyError, UnverifiedSignatureError):
        raise CommandError(f"{what}: not signed by this publisher's key (another publisher's folder?)") from None
    return metadata


def _describe(path: str, content: bytes) -> TargetFile:
    return TargetFile.from_data(path, content, ["sha256"])


def _online_key(text: str) -> SSlibKey:
    return SSlibKey.from_crypto(load_der_public_key(base64.b64decode(text)))


def _expiry(now: datetime, lifetime: timedelta) -> datetime:
    return (now.astimezone(UTC) + lifetime).replace(microsecond=0)
