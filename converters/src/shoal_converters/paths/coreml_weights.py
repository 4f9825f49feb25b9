"""How do a Core ML program's weights become smaller? Of 8 bits each, or out of a palette of 16.

Activations stay float16: to quantize them, coremltools needs predictions, which it can make on macOS only.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal_converters.errors import BadModel, BadRecipe, PathFailed
from shoal_converters.paths.coreml_export import PACKAGE, list_tensors, pack_coreml, tool
from shoal_converters.paths.coremltools_alone import coremltools
from shoal_converters.paths.messages import Made, QuantizedLayer, Reply, Request
from shoal_converters.paths.mlpackage import unpack
from shoal_converters.paths.signature import bind

optimize = coremltools.optimize.coreml


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Request.options`."""

    smallest: Annotated[int, Meta(ge=0)] = 2048
    """Numbers that a constant must hold to be made smaller: biases and tables of small layers gain nothing."""
    float_layers: tuple[str, ...] = ()
    """Operations whose weights stay as they are, by the names that the reply gives."""


def convert(request: Request) -> Reply:
    """Write one file for each variant.

    Raises:
        BadModel: not a packed ML program.
        BadRecipe: an unknown option.
        PathFailed: it has no weights of that size.
    """
    try:
        options = msgspec.convert(request.options, Options)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"options for {', '.join(request.variants)}: {error}") from None
    with tempfile.TemporaryDirectory() as scratch:
        unpack(Path(request.source), Path(scratch))
        try:
            model = coremltools.models.MLModel(scratch, skip_model_load=True)
        except Exception as error:  # of Protocol Buffers, or its own checks
            raise BadModel(f"{request.source}: coremltools doesn't read it: {error}") from error
        layers = _list_layers(model, options)
        made = tuple(_make(variant, model, request, options) for variant in request.variants)
    return Reply(made=made, inputs=request.inputs, outputs=request.outputs, layers=layers)


def _list_layers(model: Any, options: Options) -> tuple[QuantizedLayer, ...]:
    try:
        weights = optimize.get_weights_metadata(model, weight_threshold=options.smallest)
    except Exception as error:
        raise PathFailed(f"coremltools doesn't find the weights: {error}") from error
    layers = tuple(QuantizedLayer(name, "const") for name in sorted(weights) if name not in options.float_layers)
    if not layers:
        raise PathFailed(f"no constant of {options.smallest} numbers or more, so there is nothing to make smaller")
    return layers


def _make(variant: str, model: Any, request: Request, options: Options) -> Made:
    compress, precision, how = METHODS[variant]
    smaller = compress(model, options)
    smaller.save(f"{Path(request.folder, PACKAGE)}")
    inputs, outputs = list_tensors(smaller.get_spec())
    bindings = bind(request.inputs, inputs, what=f"{variant}: inputs")
    bindings += bind(request.outputs, outputs, what=f"{variant}: outputs")
    return pack_coreml(request.folder, name=variant, precision=precision, bindings=bindings, how=f"{tool()}, {how}")


def _quantize(model: Any, options: Options) -> Any:
    config = optimize.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=options.smallest)
    return optimize.linear_quantize_weights(model, _leave_out(config, options))


def _palettize(model: Any, options: Options) -> Any:
    config = optimize.OpPalettizerConfig(mode="kmeans", nbits=4, weight_threshold=options.smallest)
    return optimize.palettize_weights(model, _leave_out(config, options))


def _leave_out(config: Any, options: Options) -> Any:
    return optimize.OptimizationConfig(global_config=config, op_name_configs=dict.fromkeys(options.float_layers))


METHODS: Mapping[str, tuple[Callable[[Any, Options], Any], str, str]] = {
    "coreml-int8-weights": (_quantize, "int8-weights", "weights of 8 bits, symmetric, a scale for each channel"),
    "coreml-int4-weights": (_palettize, "int4-weights", "weights out of palettes of 16, found by k-means"),
}
"""By variant: what does it, precision, words."""
