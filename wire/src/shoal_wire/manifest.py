"""What does a release promise: which files, for which boards, with which answers?

A manifest is a TUF target at `<name>/<version>/manifest.json`: its bytes are trusted once their digest is that of the
signed targets metadata. A draft is the same text before its files were sealed; `shoal release create` turns one into
the other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal_wire.agent_release import AGENT_RELEASE, AgentPart
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

Dimension = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
"""Of a tensor's shape; -1 is free."""

INTEGERS: Mapping[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
"""Least and greatest value of each type that a tensor can be quantized to."""


class Operation(msgspec.Struct, frozen=True):
    """A named step of pre- or post-processing. Its code is in the agent, never in a release."""

    name: Identifier
    parameters: Parameters = {}


class Tensor(msgspec.Struct, frozen=True):
    """Signature of one input or output. A dimension of -1 is free."""

    name: Label
    dtype: Identifier
    shape: Annotated[tuple[Dimension, ...], Meta(max_length=16)]


class Accuracy(msgspec.Struct, frozen=True):
    """What was measured on data that the variant wasn't made from."""

    metric: Label
    value: float
    dataset: Label
    samples: Annotated[int, Meta(ge=1, le=2**53)]


class Binding(msgspec.Struct, frozen=True):
    """How a variant's file has one tensor of the model's signature, where it doesn't have it in the same way.

    An input has its axes permuted (NumPy's `transpose`) and is then quantized: `round(x / scale) + zero_point`, to the
    nearest even integer, held within the range of `dtype`. An output is dequantized, `(q - zero_point) * scale`, and
    its axes are put back.
    """

    tensor: Label
    """Name in the model's signature."""
    name: Label
    """Name in the file."""
    dtype: Identifier
    """As the file has it."""
    shape: Annotated[tuple[Dimension, ...], Meta(max_length=16)]
    """As the file has it; a dimension of -1 is free."""
    permutation: Annotated[tuple[Annotated[int, Meta(ge=0, le=15)], ...], Meta(max_length=16)] = ()
    """From the signature's axes to the file's; empty: the same."""
    scale: Annotated[float, Meta(ge=0)] = 0.0
    """0: not quantized, only converted to `dtype`."""
    zero_point: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0


class Variant(msgspec.Struct, frozen=True):
    """One form of a release. `files` names its sealed files, the model first."""

    name: Identifier
    format: Identifier
    precision: Identifier
    files: Annotated[tuple[Identifier, ...], Meta(min_length=1, max_length=64)]
    accuracy: tuple[Accuracy, ...] = ()
    memory_bytes: Bytes = 0
    """Peak memory of a worker that serves it, as measured; 0 where nobody measured."""
    bindings: Annotated[tuple[Binding, ...], Meta(max_length=128)] = ()
    """Tensors that the file has otherwise than the model's signature says; the others are as it says."""
    runtimes: Annotated[tuple[Identifier, ...], Meta(max_length=64)] = ()
    """Engines that compute it right, where not all that read the format do; empty: all."""

    @property
    def needed_engines(self) -> str:
        """What runs it, in words: its format, and the engines that compute it right where not all do."""
        return f"{self.format} (right in {', '.join(self.runtimes)} only)" if self.runtimes else self.format

    def is_right_in(self, engine: str) -> bool:
        """Whether an engine that reads the format computes it right, as far as the publisher knows."""
        return not self.runtimes or engine in self.runtimes


class ReferenceOutputs(msgspec.Struct, frozen=True):
    """What the model's outputs are for a golden case, and how far those of another engine or board may lie off.

    Answers are made to be stable: damage that shows in other answers often leaves those of the golden cases as they
    were, while it moves the outputs.
    """

    variants: Annotated[tuple[Identifier, ...], Meta(min_length=1, max_length=256)]
    """Whose outputs these are: those that compute the same, up to rounding."""
    file: Identifier
    """Sealed file of role "outputs": a NumPy .npz of float32 arrays `<call>/<output>`, calls counted from 0, outputs by
    their names in the model's signature. It may hold the first calls of a case only."""
    maximum_difference: Annotated[float, Meta(gt=0, le=10)]
    """Of every array: root mean square of the differences, divided by that of the reference."""
    source: Text
    """Where `maximum_difference` comes from."""


class GoldenCase(msgspec.Struct, frozen=True):
    """Raw input with its expected answer, and how near an answer must be."""

    name: Identifier
    file: Identifier
    expected: Parameters
    comparison: Operation
    source: Text
    """Where expected answer and tolerance come from."""
    outputs: Annotated[tuple[ReferenceOutputs, ...], Meta(max_length=64)] = ()
    """At most one for a variant."""

    def reference_of(self, variant: str) -> ReferenceOutputs | None:
        """What the outputs of a variant are compared with; None where nobody recorded any."""
        return next((reference for reference in self.outputs if variant in reference.variants), None)


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

    @property
    def golden_files(self) -> tuple[str, ...]:
        """Files that golden cases are made of: their inputs in order, then all reference outputs."""
        references = [reference.file for case in self.golden for reference in case.outputs]
        return (*(case.file for case in self.golden), *references)

    def reference_files(self, variant: str) -> tuple[str, ...]:
        """Files that only the golden cases of one variant need."""
        found = (case.reference_of(variant) for case in self.golden)
        return tuple(reference.file for reference in found if reference is not None)


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
    models: Annotated[tuple[Model, ...], Meta(max_length=16)] = ()
    """At least one, unless it is a release of the agent."""
    agent: AgentPart | None = None
    """In a release of the agent, which then names it in `critical`."""

    @property
    def floors(self) -> dict[ModelName, Version]:
        """Lowest version still allowed of each model; of the agent, by the name of its releases."""
        agent = {} if self.agent is None else {self.name: self.agent.floor}
        return agent | {model.name: model.floor for model in self.models}


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


def check_bindings(
    bindings: Sequence[Binding], *, inputs: Sequence[Tensor], outputs: Sequence[Tensor], what: str
) -> None:
    """Make sure that bindings can be followed for a model of this signature.

    Raises:
        Malformed: one is of no tensor, contradicts the signature or itself, or two of them are of one tensor.
    """
    _check_unique([binding.tensor for binding in bindings], what=f"{what}: binding of")
    ends = {name: {tensor.name: tensor for tensor in end} for name, end in (("input", inputs), ("output", outputs))}
    for binding in bindings:
        found = [end[binding.tensor] for end in ends.values() if binding.tensor in end]
        if len(found) != 1:
            names = sorted({name for end in ends.values() for name in end})
            trouble = "both an input and an output" if found else f"none of the model's tensors, {names[:8]}"
            raise Malformed(f"{what}: binding of {binding.tensor!r}, which is {trouble}")
        _check_binding(binding, found[0], what=f"{what}: binding of {binding.tensor!r}")
    renamed = {binding.tensor: binding.name for binding in bindings}
    for name, end in ends.items():
        _check_unique([renamed.get(tensor, tensor) for tensor in end], what=f"{what}: {name} in the file")


def _check_binding(binding: Binding, tensor: Tensor, *, what: str) -> None:
    rank = len(tensor.shape)
    if len(binding.shape) != rank:
        raise Malformed(f"{what}: its shape {list(binding.shape)} has another rank than {list(tensor.shape)}")
    axes = binding.permutation or tuple(range(rank))
    if sorted(axes) != list(range(rank)):
        raise Malformed(f"{what}: {list(axes)} is no permutation of its {rank} axes")
    expected = [tensor.shape[axis] for axis in axes]
    if any(-1 not in pair and pair[0] != pair[1] for pair in zip(binding.shape, expected, strict=True)):
        raise Malformed(f"{what}: its shape is {list(binding.shape)}, expected {expected} by the model's signature")
    if not binding.scale:
        if binding.zero_point:
            raise Malformed(f"{what}: zero point {binding.zero_point} without a scale")
        return
    if binding.dtype not in INTEGERS:
        raise Malformed(f"{what}: scale {binding.scale:g}, but {binding.dtype} is none of {sorted(INTEGERS)}")
    least, greatest = INTEGERS[binding.dtype]
    if not least <= binding.zero_point <= greatest:
        raise Malformed(f"{what}: zero point {binding.zero_point} is outside of {binding.dtype}")


def _check_references(description: Description, files: list[str], *, what: str) -> None:
    _check_unique(files, what=f"{what}: file")
    if description.agent is not None:
        _check_agent(description, description.agent, files, what=what)
    elif not description.models:
        raise Malformed(f"{what}: names no model")
    _check_unique([model.name for model in description.models], what=f"{what}: model")
    for model in description.models:
        where = f"{what}: model {model.name}"
        _check_unique([variant.name for variant in model.variants], what=f"{where}: variant")
        _check_unique([case.name for case in model.golden], what=f"{where}: golden case")
        if model.floor > description.version:
            raise Malformed(f"{where}: floor {model.floor} is above the release's own version {description.version}")
        named = [*(name for variant in model.variants for name in variant.files), *model.golden_files]
        missing = sorted(set(named) - set(files))
        if missing:
            raise Malformed(f"{where}: names the file {missing[0]!r}, which is not among its {len(files)} files")
        for variant in model.variants:
            what_variant = f"{where}: variant {variant.name}"
            check_bindings(variant.bindings, inputs=model.inputs, outputs=model.outputs, what=what_variant)
        for case in model.golden:
            _check_reference_outputs(case, model, what=f"{where}: golden case {case.name}: outputs")


def _check_agent(description: Description, agent: AgentPart, files: list[str], *, what: str) -> None:
    if description.name != AGENT_RELEASE or description.models:
        raise Malformed(f"{what}: a release of the agent is named {AGENT_RELEASE} and holds no models")
    if "agent" not in description.critical:
        raise Malformed(f"{what}: doesn't say that its part 'agent' is critical, so older agents wouldn't refuse it")
    _check_unique([f"{tree.machine}, Python {tree.python}" for tree in agent.trees], what=f"{what}: tree for")
    missing = sorted({tree.file for tree in agent.trees} - set(files))
    if missing:
        raise Malformed(f"{what}: names the file {missing[0]!r}, which is not among its {len(files)} files")
    if agent.floor > description.version:
        raise Malformed(f"{what}: floor {agent.floor} is above the release's own version {description.version}")
    if agent.oldest_state > agent.newest_state:
        raise Malformed(f"{what}: state formats from {agent.oldest_state} to {agent.newest_state} are none")


def _check_reference_outputs(case: GoldenCase, model: Model, *, what: str) -> None:
    named = [name for reference in case.outputs for name in reference.variants]
    _check_unique(named, what=f"{what}: variant")
    unknown = sorted(set(named) - {variant.name for variant in model.variants})
    if unknown:
        raise Malformed(f"{what}: of the variant {unknown[0]!r}, which the model doesn't have")


def _check_unique(names: list[str], *, what: str) -> None:
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        raise Malformed(f"{what} {name!r} is named twice")
