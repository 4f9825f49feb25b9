"""How does a test play a repository that was taken over, in part or whole, and the board that asks it?

Written with python-tuf alone. The board's own trust code asks it where it would ask the fleet's listener.
"""

import contextlib
import datetime
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from securesystemslib.signer import CryptoSigner
from shoal_agent.files import DiskFiles
from shoal_agent.updater.errors import TryLater
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.records import Records
from shoal_agent.updater.trust import Trust
from shoal_wire import envelope, paths
from shoal_wire.encoding import encode
from shoal_wire.grant import Grant
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, Assignment, Desired, TrustReport
from shoal_wire.metadata import AUTHORITIES_PATH, FLOORS_PATH, SIGNED_AT
from tuf.api.metadata import (
    Delegations,
    Key,
    Metadata,
    MetaFile,
    Role,
    Root,
    Signed,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)

from tests.faults.updater.publisher import DEVICE, MODEL, make_manifest
from tests.unit.agent.updater.releases import sealed

URL = "https://fleet.example"
DAY_S = 86_400.0
NOW = datetime.datetime(2027, 3, 1, tzinfo=datetime.UTC).timestamp()
LIFETIMES = {"root": 365, "targets": 90, "snapshot": 7, "timestamp": 1}
BINS = ("bins-0", "bins-1")


class Repository:
    """Keys, metadata and what is served by URL."""

    def __init__(self, *, now: float = NOW) -> None:
        self.signers = {role: [CryptoSigner.generate_ed25519()] for role in LIFETIMES}
        self.thresholds = dict.fromkeys(LIFETIMES, 1)
        self.now = now
        self.signed_at: Callable[[], float] = lambda: self.now
        self.versions = {"root": 0, "targets": 0, "snapshot": 0, "timestamp": 0, **dict.fromkeys(BINS, 0)}
        self.contents: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.endless: set[str] = set()
        self.down = False
        self.shows: str | None = None
        """The authority, in PEM, of the certificate that the server shows; None: all that a board trusts."""
        self.sent_bytes = 0
        self.assignment_key = ed25519.Ed25519PrivateKey.generate()
        public = envelope.public_text(self.assignment_key.public_key())
        self.contents[ASSIGNMENT_KEYS_PATH] = json.dumps({"protocol": 1, "keys": [public]}).encode()
        self.release(1)
        self.publish("root", "targets", *BINS)

    def release(self, version: int, *, name: str = MODEL, path: str | None = None) -> bytes:
        """A manifest that the next metadata lists."""
        files = (sealed("model", "a" * 64), sealed("case", "b" * 64, role="golden"))
        manifest = make_manifest(version, files, variant_format="onnx", floor=1)
        raw = encode(manifest).replace(f'"name":"{MODEL}"'.encode(), f'"name":"{name}"'.encode())
        self.contents[path or f"{MODEL}/{version}/manifest.json"] = raw
        return raw

    def revoke(self, **content: Any) -> None:
        self.contents[FLOORS_PATH] = json.dumps({"protocol": 1, **content}).encode()

    def name_authorities(self, *pems: str) -> None:
        """Of the fleet, which the next targets metadata lists."""
        self.contents[AUTHORITIES_PATH] = json.dumps({"protocol": 1, "certificates": pems}).encode()

    def date_ahead(self, role: str, *, signed_at: float) -> None:
        """Sign the next version of a role as if its keys' owner had a clock that says so; the fleet's own is right."""
        honest, self.signed_at = self.signed_at, lambda: signed_at
        self.versions[role] += 1
        self.keep(role, self.sign(self.content_of(role), role))
        self.signed_at = honest
        self.publish_online()

    def publish(self, *roles: str) -> None:
        """Sign the next version of these roles; snapshot and timestamp follow."""
        for role in roles:
            self.versions[role] += 1
            self.keep(role, self.sign(self.content_of(role), "targets" if role in BINS else role))
        self.publish_online()

    def publish_online(self) -> None:
        for role in ("snapshot", "timestamp"):
            self.versions[role] += 1
            self.keep(role, self.sign(self.content_of(role), role))

    def content_of(self, role: str) -> Signed:
        common: dict[str, Any] = {"version": self.versions[role], "expires": self.expiry(role)}
        common["unrecognized_fields"] = {SIGNED_AT: int(self.signed_at())}
        if role == "root":
            return Root(
                **common,
                keys={key.keyid: key for role in LIFETIMES for key in self.keys(role)},
                roles={role: Role([key.keyid for key in self.keys(role)], self.thresholds[role]) for role in LIFETIMES},
                consistent_snapshot=True,
            )
        if role == "snapshot":
            listed = {f"{role}.json": MetaFile(version=self.versions[role]) for role in ("targets", *BINS)}
            return Snapshot(**common, meta=listed)
        if role == "timestamp":
            return Timestamp(**common, snapshot_meta=self.describe_snapshot())
        keys = {key.keyid: key for key in self.keys("targets")}
        succinct = SuccinctRoles(list(keys), self.thresholds["targets"], 1, "bins")
        listed_here = {
            path: TargetFile.from_data(path, raw, ["sha256"])
            for path, raw in self.contents.items()
            if (role == "targets") == path.startswith("keys/")
            and (role == "targets" or succinct.get_role_for_target(path) == role)
        }
        for target in listed_here.values():
            self.files[f"{URL}{paths.TUF_TARGETS}{target.get_prefixed_paths()[0]}"] = self.contents[target.path]
        delegations = Delegations(keys, succinct_roles=succinct) if role == "targets" else None
        return Targets(**common, targets=listed_here, delegations=delegations)

    def describe_snapshot(self) -> MetaFile:
        version = self.versions["snapshot"]
        return MetaFile.from_data(version, self.files[self.url_of("snapshot", version)], ["sha256"])

    def keys(self, role: str) -> list[Key]:
        return [signer.public_key for signer in self.signers[role]]

    def expiry(self, role: str) -> datetime.datetime:
        days = LIFETIMES["targets" if role in BINS else role]
        return datetime.datetime.fromtimestamp(self.now + days * DAY_S, datetime.UTC)

    def sign(self, content: Signed, role: str, *, signers: list[CryptoSigner] | None = None) -> bytes:
        metadata: Metadata[Any] = Metadata(content)
        for signer in signers if signers is not None else self.signers[role]:
            metadata.sign(signer, append=True)
        raw: bytes = metadata.to_bytes()
        return raw

    def keep(self, role: str, raw: bytes) -> None:
        self.files[self.url_of(role, self.versions[role])] = raw

    def url_of(self, role: str, version: int) -> str:
        name = "timestamp.json" if role == "timestamp" else f"{version}.{role}.json"
        return f"{URL}{paths.TUF_METADATA}{name}"

    def replace_keys(self, *roles: str) -> None:
        """A root that names others for these roles, signed by the root keys of before and by its own."""
        before = self.signers["root"]
        for role in roles:
            self.signers[role] = [CryptoSigner.generate_ed25519()]
        self.versions["root"] += 1
        signers = list({id(signer): signer for signer in (*before, *self.signers["root"])}.values())
        self.keep("root", self.sign(self.content_of("root"), "root", signers=signers))

    @contextlib.contextmanager
    def get(self, url: str) -> Iterator[Answer]:
        """As the updater's connection does."""
        if self.down:
            raise TryLater(f"{url}: connection refused")
        raw = self.files.get(url)
        if url in self.endless:
            yield Answer(200, None, None, self._pour())
        elif raw is None:
            yield Answer(404, None, 0, iter(()))
        else:
            yield Answer(200, None, len(raw), iter([raw]))

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        """As the updater's connection does."""
        shown = [one.public_bytes(Encoding.PEM).decode() for one in authorities]
        return self.shows is None or self.shows in shown

    def _pour(self) -> Iterator[bytes]:
        while True:
            self.sent_bytes += 64 << 10
            yield b" " * (64 << 10)


def make_authority(*, is_authority: bool = True) -> str:
    """A certificate in PEM."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    begins, ends = (datetime.datetime.fromtimestamp(NOW + days * DAY_S, datetime.UTC) for days in (-1, 3653))
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


class Board:
    """A board's state folder and its trust in that repository."""

    def __init__(self, state: Path, repository: Repository) -> None:
        self.repository = repository
        self.records = Records(state, files=DiskFiles())
        self.clock = NOW
        (state / "tuf").mkdir(parents=True)
        (state / "tuf" / "root.json").write_bytes(repository.files[repository.url_of("root", 1)])
        (state / "device.json").write_text(json.dumps({"device": DEVICE, "devices_url": URL}))
        self.first_authority = make_authority()
        (state / "authority.pem").write_text(self.first_authority)

    def trust(self) -> Trust:
        return Trust(self.records, source=self.repository, url=URL, now=lambda: self.clock)

    def refresh(self) -> TrustReport:
        return self.trust().refresh()

    def trusts(self) -> str:
        """Authorities in PEM."""
        return (self.records.state / "authority.pem").read_text()

    def desire(
        self, *, generation: int = 1, issued_at: float = 0.0, key: ed25519.Ed25519PrivateKey | None = None
    ) -> bytes:
        """A signed desired document, which is on the disk when this returns."""
        desired = Desired(device=DEVICE, epoch=1, generation=generation, issued_at=issued_at, assignments=())
        signer = envelope.KeySigner(key or self.repository.assignment_key)
        raw = envelope.seal(encode(desired), envelope.DESIRED, signer)
        (self.records.state / "desired.dsse").write_bytes(raw)
        return raw

    def fetch(self, raw: bytes, version: int) -> bytes:
        """The manifest that somebody assigned, by its digest."""
        trust = self.trust()
        trust.refresh()
        return trust.fetch_manifest(assign(raw, version))


def assign(raw: bytes, version: int) -> Assignment:
    grants = tuple(Grant(digest * 64, 1, "AAAA") for digest in "ab")
    return Assignment(release=MODEL, version=version, manifest_sha256=hashlib.sha256(raw).hexdigest(), grants=grants)
