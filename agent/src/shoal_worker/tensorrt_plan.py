"""How does an ONNX model become a TensorRT plan on this board?

`library` is the module `tensorrt`, or another of the same interface.
"""

from __future__ import annotations

from typing import Any

from .errors import ModelRefused

PRECISIONS = ("exact", "fast")
MAX_BATCH = 32  # of a plan whose first length varies; tuned for 1
MAX_ERRORS = 3  # that are shown
MAX_REASON = 500  # characters


def build_plan(model: bytes, *, precision: str, library: Any) -> bytes:
    """Build a plan from an ONNX model, for the GPU of this board.

    Nothing is written to the disk. "exact" forbids TF32 (10 bits of mantissa for float32), "fast" allows it and half
    precision. INT8 is computed where the model is quantized with QuantizeLinear and DequantizeLinear.

    Raises:
        ModelRefused: TensorRT can't parse or build it, or a length other than the first varies.
    """
    logger = library.Logger(library.Logger.ERROR)
    builder = library.Builder(logger)
    network = builder.create_network(_network_flags(library))
    parser = library.OnnxParser(network, logger)
    if not parser.parse(model):
        errors = "; ".join(parser.get_error(index).desc() for index in range(min(parser.num_errors, MAX_ERRORS)))
        raise ModelRefused(f"tensorrt doesn't take the model: {errors[:MAX_REASON]}")
    config = builder.create_builder_config()
    _set_precision(config, network, precision=precision, flags=library.BuilderFlag, layers=library.LayerType)
    _add_profile(builder, config, network)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise ModelRefused("tensorrt couldn't build a plan of the model; its own log says why")
    return bytes(plan)


def _network_flags(library: Any) -> int:
    # Needed up to TensorRT 9, without meaning in 10, gone after.
    flag = getattr(library.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    return 0 if flag is None else 1 << int(flag)


def _set_precision(config: Any, network: Any, *, precision: str, flags: Any, layers: Any) -> None:
    if precision == "exact":
        config.clear_flag(flags.TF32)
    elif hasattr(flags, "FP16"):  # newer ones take every type from the model
        config.set_flag(flags.FP16)
    is_quantized = any(network.get_layer(index).type == layers.QUANTIZE for index in range(network.num_layers))
    if is_quantized and hasattr(flags, "INT8"):
        config.set_flag(flags.INT8)


def _add_profile(builder: Any, config: Any, network: Any) -> None:
    """Say between which bounds the lengths that vary will lie."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        first, *rest = tuple(tensor.shape) or (1,)
        if any(length < 0 for length in rest):
            raise ModelRefused(
                f"tensorrt needs fixed lengths but the first; input {tensor.name!r} is {tuple(tensor.shape)}"
            )
        if first < 0:
            profile.set_shape(tensor.name, (1, *rest), (1, *rest), (MAX_BATCH, *rest))
    config.add_optimization_profile(profile)
