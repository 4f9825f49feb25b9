"""Which tensor of one model is which of another, whose names and layouts may differ? Rules only."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shoal_wire.manifest import Binding, Tensor

from shoal_converters.errors import BadModel

LAYOUTS: dict[int, tuple[tuple[int, ...], ...]] = {
    3: ((0, 2, 1),),
    4: ((0, 2, 3, 1), (0, 3, 1, 2)),
    5: ((0, 2, 3, 4, 1), (0, 4, 1, 2, 3)),
}
"""Permutations that are looked for, by the number of axes: channels before and behind the others."""


class Match(NamedTuple):
    """A tensor of the reference, and the one that it is in the other model."""

    tensor: Tensor
    other: Tensor
    permutation: tuple[int, ...]
    """From the reference's axes to the other's; empty: the same."""
    is_by_name: bool


def match_tensors(reference: Sequence[Tensor], other: Sequence[Tensor], *, what: str) -> tuple[Match, ...]:
    """Match by name where all names are the same, else by shape where shapes tell, else by order.

    `what`: "input" or "output", for the message.

    Raises:
        BadModel: another number of tensors, or a pair whose shapes can't be the same data.
    """
    if len(reference) != len(other):
        raise BadModel(f"{len(reference)} and {len(other)} {what}s: {_names(reference)}, and {_names(other)}")
    by_name = {tensor.name: tensor for tensor in other}
    is_by_name = {tensor.name for tensor in reference} == by_name.keys()
    partners = [by_name[tensor.name] for tensor in reference] if is_by_name else _pair_by_shape(reference, other)
    matches = []
    for tensor, partner in zip(reference, partners, strict=True):
        permutation = find_permutation(tensor.shape, partner.shape)
        if permutation is None:
            shapes = f"{list(tensor.shape)} and {list(partner.shape)}"
            raise BadModel(f"{what} {tensor.name!r} can't be {partner.name!r}: their shapes are {shapes}")
        matches.append(Match(tensor, partner, permutation, is_by_name))
    return tuple(matches)


def find_permutation(shape: Sequence[int], other: Sequence[int]) -> tuple[int, ...] | None:
    """The permutation that turns a shape into another, where free axes (-1) fit any length.

    Empty where they fit as they are; None where no layout fits.
    """
    if _fits(shape, other):
        return ()
    for axes in LAYOUTS.get(len(shape), ()) if len(shape) == len(other) else ():
        if _fits([shape[axis] for axis in axes], other):
            return axes
    return None


def fix_lengths(match: Match) -> tuple[int, ...]:
    """The reference's shape, with lengths of free axes that the other model fixes."""
    axes = match.permutation or tuple(range(len(match.tensor.shape)))
    fixed = list(match.tensor.shape)
    for place, axis in enumerate(axes):
        fixed[axis] = max(fixed[axis], match.other.shape[place])
    return tuple(fixed)


def bind_matches(matches: Sequence[Match], bindings: Sequence[Binding]) -> Iterator[Binding]:
    """How the other model's file has the reference's tensors, where `bindings` say how it has its own."""
    own = {binding.tensor: binding for binding in bindings}
    for match in matches:
        tensor, other, permutation, _ = match
        binding = own.get(other.name, Binding(other.name, other.name, other.dtype, other.shape))
        axes = permutation or tuple(range(len(tensor.shape)))
        both = tuple(axes[axis] for axis in binding.permutation or range(len(axes)))
        yield Binding(
            tensor=tensor.name,
            name=binding.name,
            dtype=binding.dtype,
            shape=binding.shape,
            permutation=both,
            scale=binding.scale,
            zero_point=binding.zero_point,
        )


def note_matches(matches: Sequence[Match], *, what: str) -> Iterator[str]:
    """What to know of how tensors were matched."""
    for tensor, other, permutation, is_by_name in matches:
        if not is_by_name:
            yield f"{what} {tensor.name!r} is taken for {other.name!r}: their names differ"
        if permutation:
            yield f"{what} {tensor.name!r}: axes {list(tensor.shape)} become {list(other.shape)} by {list(permutation)}"
        if tensor.dtype != other.dtype:
            yield f"{what} {tensor.name!r}: {tensor.dtype} here, {other.dtype} there"


def _pair_by_shape(reference: Sequence[Tensor], other: Sequence[Tensor]) -> Sequence[Tensor]:
    """In the other's order, unless each shape fits exactly one."""
    fitting = [
        [index for index, partner in enumerate(other) if find_permutation(tensor.shape, partner.shape) is not None]
        for tensor in reference
    ]
    chosen = [indices[0] for indices in fitting if len(indices) == 1]
    return [other[index] for index in chosen] if len(set(chosen)) == len(other) else other


def _fits(shape: Sequence[int], other: Sequence[int]) -> bool:
    if len(shape) != len(other):
        return False
    return all(-1 in pair or pair[0] == pair[1] for pair in zip(shape, other, strict=True))


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
