"""What is a variant before anybody measured it: files in some format, and how they have the model's tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal_wire.manifest import Binding, Tensor, Variant


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A model's tensors, by which its forms are bound."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A model in one format and precision."""

    name: str
    """`onnx-int8`; the same in recipe, manifest and report."""
    format: str
    """As in the manifest: onnx, tflite, openvino, coreml."""
    precision: str
    """What weights and activations are: fp32, fp16, int8, int8-weights, int4-weights."""
    files: Mapping[str, bytes]
    """By the names that they get in the release, the model itself first."""
    bindings: tuple[Binding, ...] = ()
    how: str = ""
    """By what tool it was made and how, in words, with versions."""
    runtimes: tuple[str, ...] = ()
    """Engines that compute it right, where not all that read the format do; empty: all."""

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(map(len, self.files.values()))

    @property
    def variant(self) -> Variant:
        """As a manifest names it, with nothing promised yet."""
        return Variant(
            name=self.name,
            format=self.format,
            precision=self.precision,
            files=tuple(self.files),
            bindings=self.bindings,
            runtimes=self.runtimes,
        )
