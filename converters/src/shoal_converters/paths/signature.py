"""How do the tensors of a file correspond to those of the model's signature? Rules, and what they do to an array."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from shoal_wire.manifest import Binding, Tensor

from shoal_converters.errors import BadModel

Array = NDArray[Any]

FREE = -1
CHANNELS_LAST: Mapping[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""By rank: from a signature with the channels behind the batch to a file that has them last."""
CHANNELS_FIRST: Mapping[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
MAX_PERMUTED_RANK = 5


class Quantized(NamedTuple):
    """Of a tensor of integers that stands for real numbers."""

    scale: float
    zero_point: int


def bind(
    wanted: Sequence[Tensor],
    found: Sequence[Tensor],
    *,
    what: str,
    quantized: Mapping[str, Quantized] | None = None,
) -> tuple[Binding, ...]:
    """Say for each tensor of a signature how a file has it, where it has it otherwise.

    Tensors correspond by name; those without one of the same name by their place if their shapes fit, else by their
    shapes if only one choice fits. `what` names the file and the side for people: `m.tflite: inputs`; `quantized` has
    parameters by names in the file.

    Raises:
        BadModel: no or several ways to do it.
    """
    if not wanted:
        return ()
    bindings = []
    for mine, its in _match(wanted, found, what=what):
        permutation = _find_permutation(mine.shape, its.shape)
        assert permutation is not None
        scale, zero_point = (quantized or {}).get(its.name, Quantized(0.0, 0))
        if its != mine or scale:
            bindings.append(
                Binding(
                    tensor=mine.name,
                    name=its.name,
                    dtype=its.dtype,
                    shape=its.shape,
                    permutation=permutation,
                    scale=scale,
                    zero_point=zero_point,
                )
            )
    return tuple(bindings)


def complete(named: Sequence[Tensor], found: Sequence[Tensor], *, what: str) -> tuple[Tensor, ...]:
    """The signature of a source: what the recipe says, and the rest as the file has it.

    The recipe may say nothing, or only how outputs are called: then their shape is that of a scalar.

    Raises:
        BadModel: it names another number of tensors.
    """
    if not named:
        return tuple(found)
    if len(named) != len(found):
        raise BadModel(f"{what}: expected {_list(named)}, found {_list(found)}")
    by_name = {tensor.name: tensor for tensor in found}
    pairs = [(mine, by_name.get(mine.name, its)) for mine, its in zip(named, found, strict=True)]
    return tuple(Tensor(mine.name, its.dtype, its.shape) if not mine.shape else mine for mine, its in pairs)


def narrow(found: Sequence[Tensor], wanted: Sequence[Tensor], *, bindings: Sequence[Binding]) -> tuple[Tensor, ...]:
    """The tensors of a file with the lengths that a signature has where the file leaves them free.

    `bindings` are those that `bind` gave for the two.
    """
    by_name = {binding.name: binding for binding in bindings}
    shapes = {tensor.name: tensor.shape for tensor in wanted}
    narrowed = []
    for its in found:
        binding = by_name.get(its.name)
        mine = shapes.get(binding.tensor if binding else its.name, ())
        if binding and binding.permutation:
            mine = _permute(mine, binding.permutation)
        if len(mine) == len(its.shape):
            its = Tensor(
                its.name, its.dtype, tuple(a if b == FREE else b for a, b in zip(mine, its.shape, strict=True))
            )
        narrowed.append(its)
    return tuple(narrowed)


def to_file(arrays: Mapping[str, Array], bindings: Sequence[Binding]) -> dict[str, Array]:
    """Inputs in the form of the signature, in that of the file."""
    by_tensor = {binding.tensor: binding for binding in bindings}
    made = {}
    for name, array in arrays.items():
        binding = by_tensor.get(name)
        if binding is None:
            made[name] = array
            continue
        if binding.permutation:
            array = np.transpose(array, binding.permutation)
        if binding.scale:
            limits = np.iinfo(binding.dtype)
            steps = np.rint(array / binding.scale) + binding.zero_point
            array = np.clip(steps, limits.min, limits.max)
        made[binding.name] = np.asarray(array, dtype=binding.dtype, order="C")
    return made


def _match(wanted: Sequence[Tensor], found: Sequence[Tensor], *, what: str) -> list[tuple[Tensor, Tensor]]:
    by_name = {tensor.name: tensor for tensor in found}
    names = {tensor.name for tensor in wanted}
    left = [tensor for tensor in found if tensor.name not in names]
    unnamed = [tensor for tensor in wanted if tensor.name not in by_name]
    if len(left) != len(unnamed):
        raise BadModel(f"{what}: expected {_list(wanted)}, found {_list(found)}")
    partners = _pair(unnamed, left)
    if partners is None:
        raise BadModel(f"{what}: can't tell which is which: expected {_list(wanted)}, found {_list(found)}")
    pairs = [(mine, by_name.get(mine.name) or partners[mine.name]) for mine in wanted]
    for mine, its in pairs:
        if _find_permutation(mine.shape, its.shape) is None:
            raise BadModel(f"{what}: expected {_list([mine])}, found {_list([its])}")
    return pairs


def _pair(wanted: Sequence[Tensor], found: Sequence[Tensor]) -> dict[str, Tensor] | None:
    if all(_is_like(mine, its) for mine, its in zip(wanted, found, strict=True)):
        return {mine.name: its for mine, its in zip(wanted, found, strict=True)}
    chosen = {mine.name: [its for its in found if _is_like(mine, its)] for mine in wanted}
    names = {its.name for choices in chosen.values() for its in choices}
    if any(len(choices) != 1 for choices in chosen.values()) or len(names) != len(wanted):
        return None
    return {name: choices[0] for name, choices in chosen.items()}


def _is_like(mine: Tensor, its: Tensor) -> bool:
    return _find_permutation(mine.shape, its.shape) is not None


def _find_permutation(mine: tuple[int, ...], its: tuple[int, ...]) -> tuple[int, ...] | None:
    """The permutation of the axes that leads to the file's shape: empty where they fit as they are; None if none does.

    That with the most equal lengths; of several the axes as they are, then the usual layouts of pictures. Other
    permutations must fit exactly: with free lengths, anything would fit anything.
    """
    rank = len(mine)
    if rank != len(its):
        return None
    usual = [table[rank] for table in (CHANNELS_LAST, CHANNELS_FIRST) if rank in table]
    fitting = [one for one in (tuple(range(rank)), *usual) if _fits(_permute(mine, one), its)]
    if not fitting and rank <= MAX_PERMUTED_RANK:
        fitting = [one for one in permutations(range(rank)) if _permute(mine, one) == its][:1]
    if not fitting:
        return None
    best = max(fitting, key=lambda one: sum(a == b for a, b in zip(_permute(mine, one), its, strict=True)))
    return () if best == tuple(range(rank)) else best


def _permute(shape: tuple[int, ...], permutation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in permutation)


def _fits(mine: tuple[int, ...], its: tuple[int, ...]) -> bool:
    return all(a == b or FREE in (a, b) for a, b in zip(mine, its, strict=True))


def _list(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{one.name} {one.dtype}{list(one.shape)}" for one in tensors) or "nothing"
