"""How does a variant's file get the tensors of the model's signature, and how do its outputs become those again?

`shoal_wire.manifest.Binding` says what is done. Pipelines know the signature, workers know the file; what is converted
here is nobody else's business. Quantizing and dequantizing are those of ONNX's QuantizeLinear and DequantizeLinear and
of TensorFlow Lite's quantization specification: the nearest whole number, ties to even, saturated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from shoal_wire.errors import Malformed
from shoal_wire.manifest import INTEGERS, Binding, Tensor, check_bindings
from shoal_worker.errors import BadTensor
from shoal_worker.tensors import DTYPES

from shoal_agent.front.operations.errors import BadPipeline

Array = npt.NDArray[Any]


class Bindings:
    """Those of one variant. They hold no state: threads may share them."""

    def __init__(self, bindings: Sequence[Binding], *, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """`inputs` and `outputs` are the model's signature.

        Raises:
            BadPipeline: a binding contradicts the signature or itself, or is of a type that can't travel.
        """
        try:
            check_bindings(bindings, inputs=inputs, outputs=outputs, what="bindings")
        except Malformed as error:
            raise BadPipeline(str(error)) from None
        bound = {binding.tensor: binding for binding in bindings}
        self._inputs = {one.name: _bind(bound[one.name], one) for one in inputs if one.name in bound}
        self._outputs = {one.name: _bind(bound[one.name], one) for one in outputs if one.name in bound}

    def to_file(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs as the file has them, by its names. What is to be neither quantized nor converted isn't copied.

        Raises:
            BadTensor: values that aren't numbers where the file has whole ones, or another number of axes.
        """
        converted = {}
        for name, array in feeds.items():
            bound = self._inputs.get(name)
            converted[bound.binding.name if bound else name] = bound.to_file(array) if bound else array
        return converted

    def from_file(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the model's signature, by its names, each in memory of its own; others that the file has, too.

        Raises:
            BadTensor: the file has no such output, or it has another number of axes.
        """
        left = dict(outputs)
        converted = {}
        for name, bound in self._outputs.items():
            array = left.pop(bound.binding.name, None)
            if array is None:
                raise BadTensor(
                    f"the model's outputs are {sorted(outputs)}, expected {bound.binding.name!r} for {name!r}"
                )
            converted[name] = bound.from_file(array)
        return {name: array.copy() for name, array in left.items()} | converted


@dataclass(frozen=True, kw_only=True)
class _Bound:
    """A binding with what follows from it. `working` is the type in which its numbers are computed exactly enough."""

    binding: Binding
    dtype: np.dtype[Any]
    """Of the signature."""
    file_dtype: np.dtype[Any]
    working: np.dtype[Any]
    axes: tuple[int, ...]
    """From the signature's to the file's."""
    back: tuple[int, ...]

    def to_file(self, array: Array) -> Array:
        turned = self._turn(array, self.axes)
        binding = self.binding
        if binding.scale:
            values = np.divide(turned, binding.scale, dtype=self.working)
            np.rint(values, out=values)
            values += binding.zero_point
            return _saturate(values, self.file_dtype, what=binding.tensor)
        return self._convert(turned)

    def from_file(self, array: Array) -> Array:
        turned = self._turn(array, self.back)
        binding = self.binding
        if not binding.scale:
            return turned.astype(self.dtype, order="C")
        values = turned.astype(self.working, order="C")
        values -= binding.zero_point
        values *= binding.scale
        return values.astype(self.dtype, copy=False)

    def _convert(self, array: Array) -> Array:
        """To the file's type; to a narrower one of whole numbers by the nearest that it has."""
        dtype = self.file_dtype
        if array.dtype == dtype:
            return array
        if dtype.name not in INTEGERS or np.can_cast(array.dtype, dtype):
            return array.astype(dtype)
        if array.dtype.kind == "f":
            return _saturate(np.rint(array, dtype=self.working), dtype, what=self.binding.tensor)
        limits, own = np.iinfo(dtype), np.iinfo(array.dtype)
        return array.clip(max(limits.min, own.min), min(limits.max, own.max)).astype(dtype)

    def _turn(self, array: Array, axes: tuple[int, ...]) -> Array:
        if array.ndim != len(axes):
            expected = len(axes)
            raise BadTensor(f"{self.binding.tensor!r} has {expected} axes, found shape {list(array.shape)}")
        return array.transpose(axes)


AS_IT_IS = Bindings((), inputs=(), outputs=())
"""Of a file that has every tensor as the signature says."""


def _bind(binding: Binding, tensor: Tensor) -> _Bound:
    for name in (tensor.dtype, binding.dtype):
        if name not in DTYPES:
            raise BadPipeline(f"bindings: {binding.tensor!r} is {name}, expected one of {sorted(DTYPES)}")
    axes = binding.permutation or tuple(range(len(tensor.shape)))
    file_dtype = DTYPES[binding.dtype]
    return _Bound(
        binding=binding,
        dtype=DTYPES[tensor.dtype],
        file_dtype=file_dtype,
        working=np.dtype(np.float32 if file_dtype.itemsize <= 2 else np.float64),
        axes=axes,
        back=tuple(axes.index(axis) for axis in range(len(axes))),
    )


def _saturate(values: Array, dtype: np.dtype[Any], *, what: str) -> Array:
    """Whole numbers in a floating type, held within the range of `dtype`. Overwrites `values`."""
    if np.isnan(values).any():
        raise BadTensor(f"{what!r} holds values that aren't numbers, which {dtype.name} can't hold")
    least, greatest = INTEGERS[dtype.name]
    top = values.dtype.type(greatest)
    if int(top) > greatest:  # rounded up: the type can't hold it
        top = np.nextafter(top, values.dtype.type(0))
    return np.clip(values, least, top, out=values).astype(dtype)
