"""What would a fleet have published, made with wire code and python-tuf, as files for a plain HTTPS server?

Content is small: chunks of 1 KiB, so that a file of a few kilobytes has several.
"""

import datetime
import hashlib
from pathlib import Path
from typing import NamedTuple, TypeVar

from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from securesystemslib.signer import CryptoSigner
from shoal_wire import envelope, paths, sealed_file
from shoal_wire.agent_release import AGENT_RELEASE, AgentPart
from shoal_wire.encoding import encode
from shoal_wire.grant import Grant, GrantContext, make_grant
from shoal_wire.manifest import (
    GoldenCase,
    Manifest,
    Model,
    Needs,
    Operation,
    SealedFile,
    Tensor,
    Variant,
    target_path,
)
from shoal_wire.messages import (
    ASSIGNMENT_KEYS_PATH,
    Assignment,
    AssignmentKeys,
    Desired,
    ProbationLimits,
)
from shoal_wire.metadata import FLOORS_PATH, Floors
from tuf.api.metadata import Metadata, MetaFile, Role, Root, Snapshot, TargetFile, Targets, Timestamp

SignedT = TypeVar("SignedT", Root, Targets, Snapshot, Timestamp)

DEVICE = "d-board"
MODEL = "yard-camera-detector"
CHUNK_BYTES = 1024
GOLDEN_INPUT = b"a picture of a yard" * 30
PROBATION = ProbationLimits(answers=20, seconds=0.0)


class Release(NamedTuple):
    """A release with what an assignment needs of it."""

    manifest: Manifest
    raw: bytes
    grants: tuple[Grant, ...]

    @property
    def manifest_sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def store_names(self) -> set[str]:
        """What a board that holds the release has in its store."""
        return {self.manifest_sha256, *(file.ciphertext_sha256 for file in self.manifest.files)}


class Publisher:
    """Keys and metadata of one fleet, and the folder that its HTTPS server serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._signers = {role: CryptoSigner.generate_ed25519() for role in ("root", "targets", "snapshot", "timestamp")}
        self._targets: dict[str, bytes] = {}
        self.replace_assignment_key()
        self._board_key = x25519.X25519PrivateKey.generate().public_key()
        self.root = self._make_root()
        self._version = 0

    def replace_assignment_key(self) -> None:
        """Only documents by a new key count, once the next `publish` is out."""
        key = ed25519.Ed25519PrivateKey.generate()
        self.assignment_signer = envelope.KeySigner(key)
        keys = AssignmentKeys(keys=(envelope.public_text(key.public_key()),))
        self._targets[ASSIGNMENT_KEYS_PATH] = encode(keys)

    def release(
        self, version: int, *, weights: bytes, variant_format: str = "onnx", floor: int = 1, spare: bytes = b""
    ) -> Release:
        """Seal the files of a release; its manifest is signed by the next `publish`.

        `spare`: weights of a second variant, which there is if they aren't empty.
        """
        files = [
            self._seal("model", "model", weights),
            self._seal("case", "golden", GOLDEN_INPUT),
        ]
        files += [self._seal("spare", "model", spare)] if spare else []
        manifest = make_manifest(version, tuple(files), variant_format=variant_format, floor=floor)
        context = GrantContext(MODEL, version, DEVICE)
        grants = tuple(
            make_grant(bytes(32), self._board_key, context=context, ciphertext_sha256=file.ciphertext_sha256, counter=1)
            for file in files
        )
        raw = encode(manifest)
        self._targets[target_path(name=MODEL, version=version)] = raw
        return Release(manifest, raw, grants)

    def agent_release(self, version: int, *, archive: bytes, part: AgentPart) -> Release:
        """The same of the agent itself, whose one tree is this archive."""
        file = self._seal(part.trees[0].file, "agent", archive)
        manifest = Manifest(
            critical=("agent",),
            name=AGENT_RELEASE,
            version=version,
            created_at="2025-01-01",
            licence="Apache-2.0",
            provenance="made by a test",
            agent=part,
            files=(file,),
        )
        context = GrantContext(AGENT_RELEASE, version, DEVICE)
        digest = file.ciphertext_sha256
        grant = make_grant(bytes(32), self._board_key, context=context, ciphertext_sha256=digest, counter=1)
        raw = encode(manifest)
        self._targets[target_path(name=AGENT_RELEASE, version=version)] = raw
        return Release(manifest, raw, (grant,))

    def revoke(self, *, below: int) -> None:
        """All versions of the model below that one, once the next `publish` is out."""
        self._targets[FLOORS_PATH] = encode(Floors(floors={MODEL: below}))

    def publish(self, *, expires_in_days: float = 30) -> None:
        """Sign a new version of all metadata."""
        self._version += 1
        expires = _now() + datetime.timedelta(days=expires_in_days)
        version = self._version
        targets = Targets(version=version, expires=_now() + datetime.timedelta(days=30))
        for path, raw in self._targets.items():
            target = TargetFile.from_data(path, raw, ["sha256"])
            targets.targets[path] = target
            self._serve(paths.TUF_TARGETS + target.get_prefixed_paths()[0], raw)
        snapshot = Snapshot(
            version=version,
            expires=_now() + datetime.timedelta(days=30),
            meta={"targets.json": MetaFile(version=version)},
        )
        timestamp = Timestamp(version=version, expires=expires, snapshot_meta=MetaFile(version=version))
        self._serve(paths.TUF_METADATA + "1.root.json", self.root)
        self._serve(paths.TUF_METADATA + f"{version}.targets.json", self._sign(targets, "targets"))
        self._serve(paths.TUF_METADATA + f"{version}.snapshot.json", self._sign(snapshot, "snapshot"))
        self._serve(paths.TUF_METADATA + "timestamp.json", self._sign(timestamp, "timestamp"))

    def assign(self, release: Release, *, probation: ProbationLimits = PROBATION) -> Assignment:
        """An assignment of a release as it was published."""
        return Assignment(
            release=release.manifest.name,
            version=release.manifest.version,
            manifest_sha256=release.manifest_sha256,
            grants=release.grants,
            probation=probation,
        )

    def desire(
        self,
        *assignments: Assignment,
        generation: int,
        device: str = DEVICE,
        signer: envelope.Signer | None = None,
    ) -> bytes:
        """A signed desired document."""
        desired = Desired(device=device, epoch=1, generation=generation, issued_at=0.0, assignments=assignments)
        return envelope.seal(encode(desired), envelope.DESIRED, signer or self.assignment_signer)

    def _seal(self, name: str, role: str, plaintext: bytes) -> SealedFile:
        key = hashlib.sha256(plaintext).digest()
        parts = list(sealed_file.seal(plaintext, key, chunk_bytes=CHUNK_BYTES))
        digests = sealed_file.digest(parts)
        self._serve(paths.SEALED + digests.ciphertext_sha256, b"".join(parts))
        return SealedFile(
            name=name,
            role=role,
            plaintext_sha256=hashlib.sha256(plaintext).hexdigest(),
            plaintext_bytes=len(plaintext),
            ciphertext_sha256=digests.ciphertext_sha256,
            ciphertext_bytes=digests.ciphertext_bytes,
            chunk_bytes=CHUNK_BYTES,
            chunk_sha256s=digests.chunk_sha256s,
            suite=sealed_file.AES_256_GCM,
        )

    def _make_root(self) -> bytes:
        root = Root(
            version=1,
            expires=_now() + datetime.timedelta(days=365),
            keys={signer.public_key.keyid: signer.public_key for signer in self._signers.values()},
            roles={role: Role([signer.public_key.keyid], 1) for role, signer in self._signers.items()},
            consistent_snapshot=True,
        )
        return self._sign(root, "root")

    def _sign(self, signed: SignedT, role: str) -> bytes:
        metadata = Metadata(signed)
        metadata.sign(self._signers[role])
        raw = metadata.to_bytes()
        assert isinstance(raw, bytes)
        return raw

    def _serve(self, path: str, data: bytes) -> None:
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def make_manifest(version: int, files: tuple[SealedFile, ...], *, variant_format: str, floor: int) -> Manifest:
    """A manifest of one model with one golden case. `files`: the model, the case's input, and a second variant's model
    if there is one."""
    tensor = Tensor("x", "float32", (1, -1))
    variants = [Variant(name="onnx-int8", format=variant_format, precision="int8", files=(files[0].name,))]
    variants += [Variant("onnx-fp32", variant_format, "fp32", (file.name,)) for file in files[2:]]
    case = GoldenCase("day", files[1].name, {"cars": 1}, Operation("equal"), "counted by hand")
    return Manifest(
        name=MODEL,
        version=version,
        created_at="2025-01-01",
        licence="Apache-2.0",
        provenance="made by a test",
        models=(
            Model(
                name=MODEL,
                task="detection",
                floor=floor,
                needs=Needs(),
                inputs=(tensor,),
                outputs=(tensor,),
                pre=(),
                post=(),
                variants=tuple(variants),
                golden=(case,),
            ),
        ),
        files=files,
    )


def sealed_path(sha256: str) -> str:
    """Where a sealed file lies in the folder of a site."""
    return (paths.SEALED + sha256).lstrip("/")


def tamper(path: Path, *, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
