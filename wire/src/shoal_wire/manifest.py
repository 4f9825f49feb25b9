"""What does a release promise: which files, for which boards, with which answers?

A manifest is a TUF target at `<name>/<version>/manifest.json`: its bytes are trusted once their digest is that of the
signed targets metadata. A draft is the same text before its files were sealed; `shoal release create` turns one into
the other.
"""

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire.encoding import (
    Bytes,
    Document,
    Identifier,
    Label,
    ModelName,
    Parameters,
    Sha256,
    Text,
    Version,
    decode,
)
from shoal_wire.errors import Malformed

MAX_MANIFEST_BYTES = 4 << 20


class Operation(msgspec.Struct, frozen=True):
    """A named step of pre- or post-processing. Its code is in the agent, never in a release."""

    name: Identifier
    parameters: Parameters = {}


class Tensor(msgspec.Struct, frozen=True):
    """Signature of one input or output. A dimension of -1 is free."""

    name: Label
    dtype: Identifier
    shape: Annotated[tuple[Annotated[int, Meta(ge=-1, le=2**31 - 1)], ...], Meta(max_length=16)]


class Accuracy(msgspec.Struct, frozen=True):
    """What was measured on data that the variant wasn't made from."""

    metric: Label
    value: float
    dataset: Label
    samples: Annotated[int, Meta(ge=1, le=2**53)]


class Variant(msgspec.Struct, frozen=True):
    """One form of a release. `files` names its sealed files, the model first."""

    name: Identifier
    format: Identifier
    precision: Identifier
    files: Annotated[tuple[Identifier, ...], Meta(min_length=1, max_length=64)]
    accuracy: tuple[Accuracy, ...] = ()
    memory_bytes: Bytes = 0
    """Peak memory of a worker that serves it, as measured; 0 where nobody measured."""


class GoldenCase(msgspec.Struct, frozen=True):
    """Raw input with its expected answer, and how near an answer must be."""

    name: Identifier
    file: Identifier
    expected: Parameters
    comparison: Operation
    source: Text
    """Where expected answer and tolerance come from."""


class Needs(msgspec.Struct, frozen=True):
    """What a board must have. No architecture named means any."""

    architectures: tuple[Identifier, ...] = ()
    memory_bytes: Bytes = 0


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a release."""

    name: ModelName
    task: Label
    floor: Version = 1
    """Lowest version of this model that the fleet may still assign: what lies below is revoked."""
    minimum_agent: Label = "0.1.0"
    needs: Needs = Needs()
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    pre: tuple[Operation, ...]
    post: tuple[Operation, ...]
    labels: tuple[Label, ...] = ()
    variants: Annotated[tuple[Variant, ...], Meta(min_length=1, max_length=256)]
    golden: Annotated[tuple[GoldenCase, ...], Meta(min_length=1, max_length=256)]
    reference_output: Parameters = {}
    """Distribution of answers on the evaluation set, against which drift is judged."""


class SealedFile(msgspec.Struct, frozen=True, kw_only=True):
    """An encrypted file. The digest of each chunk lets a cache without keys verify what it passes on."""

    name: Identifier
    role: Identifier
    plaintext_sha256: Sha256
    plaintext_bytes: Bytes
    ciphertext_sha256: Sha256
    ciphertext_bytes: Bytes
    chunk_bytes: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    chunk_sha256s: Annotated[tuple[Sha256, ...], Meta(min_length=1)]
    suite: Identifier


class DraftFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a release folder, before it is sealed. `path` is relative to the folder."""

    name: Identifier
    role: Identifier
    path: Label


class Description(Document, frozen=True, kw_only=True):
    """What manifest and draft have in common."""

    name: ModelName
    version: Version
    created_at: Label
    licence: Text
    provenance: Text
    models: Annotated[tuple[Model, ...], Meta(min_length=1, max_length=16)]


class Manifest(Description, frozen=True, kw_only=True):
    """The signed text of a release."""

    files: Annotated[tuple[SealedFile, ...], Meta(min_length=1, max_length=4096)]

    def file(self, name: str) -> SealedFile:
        """The sealed file of that name, which `parse_manifest` has made sure of."""
        return next(file for file in self.files if file.name == name)


class ReleaseDraft(Description, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`release.json` of a release folder: what a converter writes and a publisher seals and signs."""

    files: Annotated[tuple[DraftFile, ...], Meta(min_length=1, max_length=4096)]


def parse_manifest(raw: bytes) -> Manifest:
    """Parse the text of a release.

    Raises:
        Malformed: not a manifest, or one that names a file it doesn't hold.
        Unsupported: written for newer software.
    """
    manifest = decode(raw, Manifest, what="manifest", limit_bytes=MAX_MANIFEST_BYTES)
    _check_references(manifest, [file.name for file in manifest.files], what="manifest")
    return manifest


def parse_draft(raw: bytes) -> ReleaseDraft:
    """Parse the `release.json` of a release folder. Raises as `parse_manifest` does."""
    draft = decode(raw, ReleaseDraft, what="release.json", limit_bytes=MAX_MANIFEST_BYTES)
    _check_references(draft, [file.name for file in draft.files], what="release.json")
    return draft


def target_path(*, name: str, version: int) -> str:
    """Path of a release's manifest among the TUF targets."""
    return f"{name}/{version}/manifest.json"


def _check_references(description: Description, files: list[str], *, what: str) -> None:
    _check_unique(files, what=f"{what}: file")
    _check_unique([model.name for model in description.models], what=f"{what}: model")
    for model in description.models:
        where = f"{what}: model {model.name}"
        _check_unique([variant.name for variant in model.variants], what=f"{where}: variant")
        _check_unique([case.name for case in model.golden], what=f"{where}: golden case")
        if model.floor > description.version:
            raise Malformed(f"{where}: floor {model.floor} is above the release's own version {description.version}")
        named = [name for variant in model.variants for name in variant.files] + [case.file for case in model.golden]
        missing = sorted(set(named) - set(files))
        if missing:
            raise Malformed(f"{where}: names the file {missing[0]!r}, which is not among its {len(files)} files")


def _check_unique(names: list[str], *, what: str) -> None:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise Malformed(f"{what} {name!r} is named twice")
