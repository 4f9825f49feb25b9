"""Releases, assignments and journals for unit tests of the updater."""

from typing import Any

from msgspec.structs import replace
from shoal_agent.slots import HeldRelease, Journal, Slot
from shoal_wire.grant import Grant
from shoal_wire.manifest import GoldenCase, Manifest, Model, Operation, SealedFile, Tensor, Variant
from shoal_wire.messages import Assignment, Desired, ReleaseReference
from shoal_wire.update import UpdateState

NAME = "yard-camera-detector"
MODEL_FILE, CASE_FILE, OTHER_FILE = "a" * 64, "b" * 64, "c" * 64
MODEL_PLAIN, OTHER_PLAIN = "d" * 64, "e" * 64
"""Digests of the plaintext of the first and the last."""


def manifest_digest(version: int) -> str:
    return f"{version:064x}"


def sealed(name: str, ciphertext_sha256: str, **changes: Any) -> SealedFile:
    """A file of 2,000 bytes of plaintext in two chunks of 1,024: 32 + 2,000 + 2 · 16 bytes."""
    file = SealedFile(
        name=name,
        role="model",
        plaintext_sha256="0" * 64,
        plaintext_bytes=2000,
        ciphertext_sha256=ciphertext_sha256,
        ciphertext_bytes=2064,
        chunk_bytes=1024,
        chunk_sha256s=("1" * 64, "2" * 64),
        suite="aes-256-gcm",
    )
    return replace(file, **changes)


def model(**changes: Any) -> Model:
    tensor = Tensor("x", "float32", (1,))
    variants = (
        Variant("openvino-int8", "openvino", "int8", ("other",)),
        Variant("onnx-int8", "onnx", "int8", ("model",)),
    )
    described = Model(
        name=NAME,
        task="detection",
        inputs=(tensor,),
        outputs=(tensor,),
        pre=(),
        post=(),
        variants=variants,
        golden=(GoldenCase("day", "case", {}, Operation("equal"), "by hand"),),
    )
    return replace(described, **changes)


def manifest(version: int, *models: Model) -> Manifest:
    return Manifest(
        name=NAME,
        version=version,
        created_at="2025-01-01",
        licence="Apache-2.0",
        provenance="a test",
        models=models or (model(),),
        files=(
            sealed("model", MODEL_FILE, plaintext_sha256=MODEL_PLAIN),
            sealed("case", CASE_FILE),
            sealed("other", OTHER_FILE, plaintext_sha256=OTHER_PLAIN),
        ),
    )


def assignment(version: int, *, files: tuple[str, ...] = (MODEL_FILE, CASE_FILE), name: str = NAME) -> Assignment:
    grants = tuple(Grant(sha256, 1, "") for sha256 in files)
    return Assignment(release=name, version=version, manifest_sha256=manifest_digest(version), grants=grants)


def desired(generation: int, *assignments: Assignment) -> Desired:
    return Desired(device="d-board", epoch=1, generation=generation, issued_at=0.0, assignments=assignments)


def held(version: int, *, name: str = NAME) -> HeldRelease:
    return HeldRelease(
        reference=ReleaseReference(name, version, manifest_digest(version)),
        epoch=1,
        generation=version,
        variant="onnx-int8",
        grants=(),
    )


def slot(current: int | None, previous: int | None = None, *refused: tuple[int, int]) -> Slot:
    return Slot(
        current=None if current is None else held(current),
        previous=None if previous is None else held(previous),
        refused=refused,
    )


def journal(version: int, *, generation: int, state: UpdateState = UpdateState.PLANNING, **changes: Any) -> Journal:
    begun = Journal(epoch=1, generation=generation, assignment=assignment(version), state=state, attempts=1)
    return replace(begun, **changes)
