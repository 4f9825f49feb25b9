"""What are the two sides of a comparison? A model's file each, or a variant of a release folder each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_agent.engine_table import engines_for
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.errors import BadPipeline
from shoal_wire.manifest import INTEGERS, Binding, Model, Operation, Tensor, Variant
from shoal_worker.messages import TensorSpec

from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import TensorFacts
from shoal_converters.inspection.formats import detect_kind
from shoal_converters.inspection.inspecting import load_draft, read_facts
from shoal_converters.inspection.running import list_files

RELEASE = "release"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A model that can be run here."""

    name: str
    """For people."""
    variant: str
    """Of a release, `model/variant`; empty for a file."""
    format: str
    files: tuple[Path, ...]
    engine: str
    signature: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] | None
    """Inputs and outputs that its bindings lead to; None: those of the file."""
    bindings: tuple[Binding, ...] = ()
    precision: str = ""
    """As a manifest has it, or as the file tells."""
    pre: tuple[Operation, ...] = ()
    """Of a release, as `post` and `golden`."""
    post: tuple[Operation, ...] = ()
    golden: tuple[Path, ...] = ()
    """Items of its golden cases."""

    @property
    def is_calibrated(self) -> bool:
        """Whether its activations are whole numbers that stand for a range of numbers found in data."""
        return self.precision == "int8"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Inputs and outputs as they are compared, and how the file has them."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    bindings: tuple[Binding, ...]


def find_sides(text: str) -> tuple[Side, ...]:
    """The sides that `FILE`, `RELEASE` or `RELEASE:VARIANT` names; several for a release without a variant.

    Raises:
        BadModel: no such file, release or variant, or none that an engine here reads.
    """
    folder, _, wanted = text.rpartition(":")
    path = Path(text) if Path(text).exists() or not folder else Path(folder)
    if path == Path(text):
        wanted = ""
    if detect_kind(path) != RELEASE:
        if wanted:
            raise BadModel(f"{path}: not a release folder, so it has no variant {wanted!r}")
        return (_side_of_file(path),)
    draft = load_draft(path)
    paths = {file.name: path / file.path for file in draft.files}
    sides, known = [], []
    for model in draft.models:
        for variant in model.variants:
            known.append(f"{model.name}/{variant.name}")
            if wanted in ("", variant.name, known[-1]) and _find_engines(variant):
                files = tuple(paths[name] for name in variant.files)
                golden = tuple(paths[case.file] for case in model.golden)
                sides.append(_side_of_variant(path, model, variant, files, golden=golden))
    if not sides:
        found = f"variant {wanted!r} isn't among them" if wanted else "no engine here computes any of them right"
        raise BadModel(f"{path}: has the variants {', '.join(known)}; {found}")
    return tuple(sides)


def pair_sides(first: Sequence[Side], second: Sequence[Side]) -> tuple[tuple[Side, Side], ...]:
    """Which side is compared with which: one with each, or variants of the same name.

    Raises:
        BadModel: two releases without a variant of the same name.
    """
    if len(first) == 1 or len(second) == 1:
        return tuple((one, other) for one in first for other in second)
    by_name = {side.variant: side for side in second}
    pairs = tuple((side, by_name[side.variant]) for side in first if side.variant in by_name)
    if not pairs:
        names = [", ".join(side.variant for side in sides) for sides in (first, second)]
        raise BadModel(
            f"no variant is in both releases: {names[0]} here, {names[1]} there; name one as RELEASE:VARIANT"
        )
    return pairs


def find_signature(side: Side, *, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Signature:
    """What a side takes and gives, where its engine says that the file has `inputs` and `outputs`.

    Quantized inputs and outputs of a file become float32.
    """
    if side.signature is not None:
        return Signature(inputs=side.signature[0], outputs=side.signature[1], bindings=side.bindings)
    facts = read_facts(side.files[0])
    ends = (_bind(inputs, facts.inputs), _bind(outputs, facts.outputs))
    bindings = tuple(binding for _, bound in ends for binding in bound)
    return Signature(inputs=ends[0][0], outputs=ends[1][0], bindings=bindings)


def make_bindings(signature: Signature) -> Bindings:
    """What turns feeds of a signature into those of its file, and outputs back.

    Raises:
        BadModel: an input and an output have the same name, or a tensor is of a type that can't be run.
    """
    try:
        return Bindings(signature.bindings, inputs=signature.inputs, outputs=signature.outputs)
    except BadPipeline as error:
        raise BadModel(str(error)) from None


def find_ranges(bindings: Sequence[Binding]) -> dict[str, tuple[float, float]]:
    """Least and greatest number that each quantized tensor can stand for, by its name in the signature."""
    ranges = {}
    for one in bindings:
        if one.scale:
            least, greatest = ((limit - one.zero_point) * one.scale for limit in INTEGERS[one.dtype])
            ranges[one.tensor] = (least, greatest)
    return ranges


def _side_of_file(path: Path) -> Side:
    facts = read_facts(path)
    engines = engines_for(facts.format, interpreters={})
    if not engines:
        raise BadModel(f"{path}: no engine that is installed here reads {facts.format}")
    files = list_files(path, facts)
    return Side(
        name=str(path),
        variant="",
        format=facts.format,
        files=files,
        engine=engines[0],
        signature=None,
        precision=facts.precision,
    )


def _side_of_variant(
    folder: Path, model: Model, variant: Variant, files: tuple[Path, ...], *, golden: tuple[Path, ...]
) -> Side:
    return Side(
        name=f"{folder}:{model.name}/{variant.name}",
        variant=f"{model.name}/{variant.name}",
        format=variant.format,
        files=files,
        engine=_find_engines(variant)[0],
        signature=(model.inputs, model.outputs),
        bindings=variant.bindings,
        precision=variant.precision,
        pre=model.pre,
        post=model.post,
        golden=golden,
    )


def _find_engines(variant: Variant) -> list[str]:
    """Those here that read its format and compute it right."""
    here = engines_for(variant.format, interpreters={})
    return [engine for engine in here if not variant.runtimes or engine in variant.runtimes]


def _bind(specs: Sequence[TensorSpec], facts: Sequence[TensorFacts]) -> tuple[tuple[Tensor, ...], list[Binding]]:
    """Tensors as they are compared, and a binding for each that is quantized in the file."""
    quantized = {tensor.name: tensor for tensor in facts if tensor.scale}
    tensors, bindings = [], []
    for spec in specs:
        shape = tuple(-1 if length is None else length for length in spec.shape)
        found = quantized.get(spec.name)
        tensors.append(Tensor(spec.name, spec.dtype if found is None else "float32", shape))
        if found is not None:
            scale, zero_point = found.scale, found.zero_point
            bindings.append(Binding(spec.name, spec.name, spec.dtype, shape, scale=scale, zero_point=zero_point))
    return tuple(tensors), bindings
