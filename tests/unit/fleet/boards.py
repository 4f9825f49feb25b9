"""What does a test need to play a board, and a database that knows it?"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from shoal_fleet.access.models import Project, ReleaseName
from shoal_fleet.access.roles import DEFAULT_PROJECT
from shoal_fleet.database import Sessions, make_sessions, open_engine, writing
from shoal_fleet.devices.models import Device
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases.content_keys import keep
from shoal_fleet.releases.models import Release
from shoal_fleet.schema import all_tables
from shoal_fleet.signing_keys import NAMES
from shoal_fleet.trust.models import Target
from shoal_wire import envelope
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.encoding import encode
from shoal_wire.envelope import KeySigner
from shoal_wire.grant import RecipientKeys, hpke_public_text
from shoal_wire.hybrid_key import HybridPrivateKey
from shoal_wire.messages import (
    AgentReport,
    Assignment,
    Batch,
    Desired,
    Lost,
    ReleaseReference,
    Reported,
    Row,
    SlotReport,
    UpdateReport,
)
from shoal_wire.tuning import BoardKind
from shoal_wire.update import UpdateState

NOW = 1_800_000_000.0
ISSUER = "c" * 64
"""Fingerprint of an authority of which a test needs no more."""
IN_MEMORY = Path(":memory:")
"""A database that one thread alone can use."""


def make_database(path: Path = IN_MEMORY) -> Sessions:
    engine = open_engine(path)
    all_tables().create_all(engine)
    sessions = make_sessions(engine)
    with sessions() as session, writing(session):
        session.add(Project(name=DEFAULT_PROJECT, created_at=NOW))
    return sessions


def close_database(sessions: Sessions) -> None:
    sessions.kw["bind"].dispose()


def make_keys() -> OnlineKeys:
    """In memory alone."""
    hybrid = HybridPrivateKey.generate()
    return OnlineKeys(
        **{name: ed25519.Ed25519PrivateKey.generate() for name in NAMES},
        recipient=RecipientKeys(x25519.X25519PrivateKey.generate(), hybrid),
        hybrid=hybrid,
        vault=Vault(secrets.token_bytes(32)),
    )


class Board:
    """A device as the fleet sees it: its keys, and what it signs."""

    def __init__(self, name: str) -> None:
        self.id = f"d-{name}"
        self.name = name
        self.identity = ec.generate_private_key(ec.SECP256R1())
        self.hpke = x25519.X25519PrivateKey.generate()
        self.recipient = RecipientKeys(self.hpke)
        self.signer = KeySigner(self.identity)
        self.stream = secrets.token_hex(16)
        self.counter = 0

    def enrol(self, sessions: Sessions, *, revoked_at: float | None = None, project: str = DEFAULT_PROJECT) -> None:
        device = Device(
            id=self.id,
            name=self.name,
            project=project,
            profile="generic",
            agent_version="0.1.0",
            identity_key=envelope.public_text(self.identity.public_key()),
            hpke_key=hpke_public_text(self.hpke.public_key()),
            enrolled_at=NOW,
            revoked_at=revoked_at,
        )
        with sessions() as session, writing(session):
            session.add(device)

    def sign(self, payload: bytes, kind: str) -> bytes:
        return envelope.seal(payload, kind, self.signer)

    def batch(
        self, *, first: int, rows: Sequence[Row | bytes], lost: Lost | None = None, stream: str | None = None
    ) -> bytes:
        return self.sign(encode(self.plain_batch(first=first, rows=rows, lost=lost, stream=stream)), envelope.BATCH)

    def plain_batch(
        self, *, first: int, rows: Sequence[Row | bytes], lost: Lost | None = None, stream: str | None = None
    ) -> Batch:
        raw = tuple(msgspec.Raw(row if isinstance(row, bytes) else encode(row)) for row in rows)
        return Batch(device=self.id, stream=stream or self.stream, first=first, rows=raw, lost=lost)

    def reported(
        self,
        *,
        order: tuple[int, int] = (0, 0),
        slots: Sequence[SlotReport] = (),
        update: UpdateReport | None = None,
        counter: int | None = None,
        kind: BoardKind | None = None,
        agent: AgentReport | None = None,
    ) -> Reported:
        self.counter += 1
        return Reported(
            device=self.id,
            counter=self.counter if counter is None else counter,
            stream=self.stream,
            at=NOW,
            agent_version="0.1.0",
            profile="generic",
            epoch=order[0],
            generation=order[1],
            slots=tuple(slots),
            update=update,
            kind=kind,
            agent=agent,
        )

    def sign_reported(self, reported: Reported) -> bytes:
        return self.sign(encode(reported), envelope.REPORTED)


def reference(name: str, version: int) -> ReleaseReference:
    return ReleaseReference(name, version, hashlib.sha256(manifest_of(name, version)).hexdigest())


def slot(
    current: ReleaseReference, *, previous: ReleaseReference | None = None, refused: Sequence[int] = ()
) -> SlotReport:
    return SlotReport(
        release=current.release, current=current, previous=previous, serving=current, refused=tuple(refused)
    )


def progress(target: ReleaseReference, state: UpdateState, *, order: tuple[int, int], reason: str = "") -> UpdateReport:
    return UpdateReport(epoch=order[0], generation=order[1], target=target, state=state, reason=reason)


def weights_of(name: str, version: int) -> str:
    """Digest of the one file of a release; give it to another version where that has the same weights."""
    return hashlib.sha256(f"{name} {version}".encode()).hexdigest()


def manifest_of(
    name: str, version: int, *, floor: int = 1, weights: str | None = None, variants: Sequence[str] = ("only",)
) -> bytes:
    digest = weights or weights_of(name, version)
    manifest = {
        "name": name,
        "version": version,
        "created_at": "2027-01-15",
        "licence": "none",
        "provenance": "a test",
        "models": [
            {
                "name": name,
                "task": "a test",
                "floor": floor,
                "inputs": [],
                "outputs": [],
                "pre": [],
                "post": [],
                "variants": [
                    {"name": variant, "format": "onnx", "precision": "int8", "files": ["model"]} for variant in variants
                ],
                "golden": [
                    {
                        "name": "case",
                        "file": "model",
                        "expected": {},
                        "comparison": {"name": "equal"},
                        "source": "a test",
                    }
                ],
            }
        ],
        "files": [
            {
                "name": "model",
                "role": "model",
                "plaintext_sha256": digest,
                "plaintext_bytes": 1,
                "ciphertext_sha256": digest,
                "ciphertext_bytes": 1,
                "chunk_bytes": 1,
                "chunk_sha256s": [digest],
                "suite": "aes-256-gcm",
            }
        ],
    }
    return json.dumps(manifest | (agent_part(floor) if name == AGENT_RELEASE else {})).encode()


def agent_part(floor: int) -> dict[str, object]:
    """What a release of the agent has in place of models."""
    trees = [{"machine": "aarch64", "python": "3.11", "file": "model", "unpacked_bytes": 1}]
    part = {"version": "0.2.0", "floor": floor, "oldest_state": 1, "newest_state": 1, "trees": trees}
    return {"critical": ["agent"], "models": [], "agent": part}


def add_release(
    sessions: Sessions,
    keys: OnlineKeys,
    *,
    name: str,
    version: int,
    floor: int = 1,
    files: int = 2,
    weights: str | None = None,
    project: str = DEFAULT_PROJECT,
) -> dict[str, bytes]:
    """Put a release into the database; returns the content key of each of its sealed files."""
    raw = manifest_of(name, version, floor=floor, weights=weights)
    sha256 = hashlib.sha256(raw).hexdigest()
    content_keys = {
        hashlib.sha256(f"file {number} of {name}".encode()).hexdigest(): hashlib.sha256(b"key %d" % number).digest()
        for number in range(files)
    }
    with sessions() as session, writing(session):
        release = Release(name=name, version=version, manifest_sha256=sha256, targets_version=1, created_at=NOW)
        session.add(release)
        session.merge(ReleaseName(name=name, project=project))
        session.flush()
        session.add(Target(path=f"{name}/{version}/manifest.json", sha256=sha256, raw=raw))
        keep(session, release, content_keys, vault=keys.vault)
    return content_keys


def assignment_for(desired: Desired, name: str) -> Assignment:
    return next(one for one in desired.assignments if one.release == name)
