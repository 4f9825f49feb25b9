"""How does a test play the publisher, who holds the keys of root and targets?

Written with python-tuf alone, so that it shares nothing with the product's own publisher.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.signer import CryptoSigner, SSlibKey
from shoal_wire import sealed_file
from shoal_wire.grant import FLEET, Grant, GrantContext, make_grant, parse_hpke_public
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.metadata import Metadata, Root, TargetFile, Targets


@dataclass(frozen=True)
class SealedRelease:
    """A release that is ready to be signed: its manifest, and its one sealed file with the key."""

    name: str
    version: int
    manifest: bytes
    ciphertext: bytes
    ciphertext_sha256: str
    content_key: bytes

    @property
    def path(self) -> str:
        return f"{self.name}/{self.version}/manifest.json"

    def grant(self, hpke: str, *, version: int | None = None) -> Grant:
        """The content key, sealed to the fleet."""
        context = GrantContext(release=self.name, version=version or self.version, recipient=FLEET)
        key = parse_hpke_public(hpke, what="test")
        return make_grant(self.content_key, key, context=context, ciphertext_sha256=self.ciphertext_sha256, counter=0)


class Publisher:
    """Two offline keys, and what was signed last."""

    def __init__(self, fleet_keys: Mapping[str, str], *, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)
        self.fleet_keys = fleet_keys
        self.root_key = CryptoSigner.generate_ed25519()
        self.targets_key = CryptoSigner.generate_ed25519()
        self.assignment_keys = json.dumps({"protocol": 1, "keys": [fleet_keys["assignment"]]}).encode()
        self.root = self.make_root()
        self.targets = Targets(version=1, expires=self.expiry(90))
        self.list_target(ASSIGNMENT_KEYS_PATH, self.assignment_keys)

    def expiry(self, days: float) -> datetime:
        return (self.now + timedelta(days=days)).replace(microsecond=0)

    def make_root(self) -> Root:
        root = Root(expires=self.expiry(365), consistent_snapshot=True)
        root.add_key(self.root_key.public_key, "root")
        root.add_key(self.targets_key.public_key, "targets")
        root.add_key(online_key(self.fleet_keys["snapshot"]), "snapshot")
        root.add_key(online_key(self.fleet_keys["timestamp"]), "timestamp")
        return root

    def signed_root(self) -> bytes:
        return signed(self.root, self.root_key)

    def list_target(self, path: str, content: bytes) -> None:
        self.targets.targets[path] = TargetFile.from_data(path, content, ["sha256"])

    def signed_targets(self, *, signer: CryptoSigner | None = None) -> bytes:
        return signed(self.targets, signer or self.targets_key)

    def next_targets(self, release: SealedRelease) -> bytes:
        self.targets.version += 1
        self.list_target(release.path, release.manifest)
        return self.signed_targets()

    def ceremony(self) -> dict[str, object]:
        """Body of the first upload."""
        return {
            "root": text(self.signed_root()),
            "targets": text(self.signed_targets()),
            "target_files": {ASSIGNMENT_KEYS_PATH: text(self.assignment_keys)},
        }


def make_release(name: str, version: int, *, plaintext: bytes = b"a model") -> SealedRelease:
    content_key = secrets.token_bytes(32)
    parts = list(sealed_file.seal(plaintext, content_key))
    digests = sealed_file.digest(parts)
    file = {
        "name": "model",
        "role": "model",
        "plaintext_sha256": hashlib.sha256(plaintext).hexdigest(),
        "plaintext_bytes": len(plaintext),
        "ciphertext_sha256": digests.ciphertext_sha256,
        "ciphertext_bytes": digests.ciphertext_bytes,
        "chunk_bytes": sealed_file.CHUNK_BYTES,
        "chunk_sha256s": digests.chunk_sha256s,
        "suite": sealed_file.AES_256_GCM,
    }
    golden = {"name": "a", "file": "model", "expected": {}, "comparison": {"name": "equal"}, "source": "a test"}
    model = {
        "name": name,
        "task": "a test",
        "inputs": [],
        "outputs": [],
        "pre": [],
        "post": [],
        "variants": [{"name": "only", "format": "onnx", "precision": "fp32", "files": ["model"]}],
        "golden": [golden],
    }
    manifest = {
        "name": name,
        "version": version,
        "created_at": "2026-01-01",
        "licence": "none",
        "provenance": "a test",
        "models": [model],
        "files": [file],
    }
    return SealedRelease(
        name=name,
        version=version,
        manifest=json.dumps(manifest).encode(),
        ciphertext=b"".join(parts),
        ciphertext_sha256=digests.ciphertext_sha256,
        content_key=content_key,
    )


def signed(content: Root | Targets, signer: CryptoSigner) -> bytes:
    metadata: Metadata[Root] | Metadata[Targets] = Metadata(content)  # type: ignore[type-var,assignment]
    metadata.sign(signer)
    return metadata.to_bytes()


def online_key(public_text: str) -> SSlibKey:
    return SSlibKey.from_crypto(load_der_public_key(base64.b64decode(public_text)))


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
