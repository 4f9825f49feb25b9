"""What is signed by some of those who must, and waits for the others?

A file that goes from one signer to the next: metadata with the signatures so far, and what is published with it.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Label, Text, decode_struct
from shoal_wire.errors import Malformed
from shoal_wire.grant import Grant
from shoal_wire.manifest import parse_manifest, target_path
from shoal_wire.metadata import AUTHORITIES_PATH
from tuf.api.metadata import Metadata, Root, Targets

from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.metadata import NextMetadata
from shoal_fleet.command.present import parse
from shoal_fleet.command.private_files import write_private
from shoal_fleet.command.publisher import ROLES, FleetKeys, Publisher, RoleKeys

MAX_BYTES = 64 << 20

Need = tuple[Root, str]
"""Root metadata, and the role of it that must sign."""

Raw64 = Annotated[str, Meta(max_length=8 << 20)]
"""Bytes in base64."""


class ReleasePart(msgspec.Struct, frozen=True):
    """What is uploaded with the metadata of a new release."""

    manifest: Raw64
    grants: tuple[Grant, ...]
    project: str | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file. Metadata is JSON in base64, as it is published."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    fleet: Label
    """Address of the fleet that it is for."""
    title: Label
    """Name of the file, without its ending."""
    says: tuple[Text, ...]
    """What it changes, for whoever signs it."""
    trusted_root: Raw64
    """The root metadata in force; of a ceremony, the first one itself."""
    root: Raw64 | None = None
    targets: Raw64 | None = None
    bins: dict[str, Raw64] = {}
    files: dict[str, Raw64] = {}
    release: ReleasePart | None = None
    fleet_keys: FleetKeys | None = None
    keys: dict[str, RoleKeys] = {}
    """What publisher.json holds once it is published, where that changes."""

    @property
    def is_ceremony(self) -> bool:
        """Whether it registers a publisher."""
        return self.root is not None and self.root == self.trusted_root


class Lacking(NamedTuple):
    """Metadata that too few have signed."""

    name: str
    signed: int
    threshold: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.name}: {self.signed} of {self.threshold} signatures"


def make_pending(following: NextMetadata, *, trusted_root: bytes, **rest: Any) -> Pending:
    """What is to be signed."""
    return Pending(
        trusted_root=_encode(trusted_root),
        root=None if following.root is None else _encode(following.root.to_bytes()),
        targets=None if following.targets is None else _encode(following.targets.to_bytes()),
        bins={role: _encode(metadata.to_bytes()) for role, metadata in following.bins.items()},
        files={path: _encode(content) for path, content in following.files.items()},
        **rest,
    )


def sign(pending: Pending, publisher: Publisher) -> Pending:
    """Add the signatures of the keys that can be reached in a publisher's folder.

    Raises:
        UsageError, CommandError: none of them counts here, or none can be used.
    """
    documents = list(_documents(pending))
    wanted = {name: _key_ids(needs) for name, _, needs in documents}
    opened = publisher.signers(frozenset().union(*wanted.values()), also=pending.keys)
    if not opened:
        raise UsageError(f"{pending.title}: none of the keys of {publisher.folder} counts for it (any more)")
    signers = {signer.public_key.keyid: signer for signer in opened}
    signed: dict[str, str] = {}
    for name, metadata, _ in documents:
        for keyid in sorted(wanted[name] & signers.keys()):
            metadata.sign(signers[keyid], append=True)
        signed[name] = _encode(metadata.to_bytes())
    return msgspec.structs.replace(
        pending,
        trusted_root=signed["root"] if pending.is_ceremony else pending.trusted_root,
        root=signed.get("root"),
        targets=signed.get("targets"),
        bins={role: signed[role] for role in pending.bins},
    )


def find_lacking(pending: Pending) -> list[Lacking]:
    """What too few have signed yet."""
    lacking = []
    for name, metadata, needs in _documents(pending):
        for delegator, role in needs:
            result = delegator.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
            if not result:
                lacking.append(Lacking(name, len(result.signed), result.threshold))
                break
    return lacking


def read_pending(path: Path) -> Pending:
    """Read a file that somebody handed on.

    Raises:
        UsageError: it is none.
    """
    try:
        return decode_struct(path.read_bytes(), Pending, what=str(path), limit_bytes=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except Malformed as error:
        raise UsageError(f"{error}; expected a file that `shoal` wrote for others to sign") from None


def write_pending(path: Path, pending: Pending) -> None:
    """Keep it, for whoever signs next."""
    write_private(path, msgspec.json.encode(pending))


def request_of(pending: Pending) -> tuple[str, dict[str, object]]:
    """Path and body of the request that publishes it."""
    if pending.is_ceremony:
        return "/api/v1/trust", {"root": pending.root, "targets": pending.targets, "target_files": pending.files}
    if pending.release is not None:
        body = {"manifest": pending.release.manifest, "grants": pending.release.grants}
        project = {} if pending.release.project is None else {"project": pending.release.project}
        return "/api/v1/releases", {**body, **project, "targets": pending.targets, "bins": pending.bins}
    roots = [] if pending.root is None else [pending.root]
    files = {"target_files": pending.files, "targets": pending.targets}
    return "/api/v1/trust/updates", {"roots": roots, "bins": pending.bins, **files}


def record(pending: Pending, publisher: Publisher) -> None:
    """Remember in the publisher's folder what the fleet took."""
    if pending.release is not None:
        made = parse_manifest(_decode(pending.release.manifest))
        publisher.record_released([*list_released(publisher), target_path(name=made.name, version=made.version)])
    if AUTHORITIES_PATH in pending.files:
        publisher.record_authorities(_decode(pending.files[AUTHORITIES_PATH]))
    raws = {Root.type: pending.root, Targets.type: pending.targets, **pending.bins}
    for name, metadata, _ in _documents(pending):
        publisher.record_signed(_decode(raws[name] or ""), version=metadata.signed.version, role=name)
    if pending.keys or pending.fleet_keys:
        keys = {role: pending.keys.get(role) or publisher.role_keys(role) for role in ROLES}
        publisher.replace_keys(keys, fleet=pending.fleet_keys or publisher.fleet_keys())


def list_released(publisher: Publisher) -> list[str]:
    """Releases that were published from this folder. In one of before that was kept, all that it signed counts."""
    kept = publisher.released()
    if kept is not None:
        return kept
    paths: list[str] = []
    for role in publisher.signed_roles():
        raw = publisher.last_signed(role)
        signed = None if raw is None else Metadata.from_bytes(raw).signed
        if isinstance(signed, Targets):
            paths += signed.targets
    return paths


def _key_ids(needs: list[Need]) -> frozenset[str]:
    return frozenset(keyid for delegator, role in needs for keyid in delegator.get_delegated_role(role).keyids)


def _documents(pending: Pending) -> Iterator[tuple[str, Metadata[Any], list[Need]]]:
    """Each metadata by its role, with who must have signed it: delegator and role."""
    trusted = parse(_decode(pending.trusted_root), Root, what="trusted root metadata")
    root = trusted
    if pending.root is not None:
        root = parse(_decode(pending.root), Root, what="root metadata")
        if pending.is_ceremony:
            yield Root.type, root, [(root.signed, Root.type)]
        elif root.signed.version != trusted.signed.version + 1:
            raise CommandError(
                f"root metadata: expected version {trusted.signed.version + 1}, found {root.signed.version}"
            )
        else:
            yield Root.type, root, [(trusted.signed, Root.type), (root.signed, Root.type)]
    if pending.targets is not None:
        targets = parse(_decode(pending.targets), Targets, what="targets metadata")
        yield Targets.type, targets, [(root.signed, Targets.type)]
    for role, raw in sorted(pending.bins.items()):
        # The bins have the keys of targets: the fleet accepts no other delegation.
        yield role, parse(_decode(raw), Targets, what=f"metadata of {role}"), [(root.signed, Targets.type)]


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
