"""How does a float TFLite file get float16 weights, 8-bit integers throughout, or only 8-bit weights?

By AI Edge Quantizer, which wants float32 weights and a signature, that many files lack: both are seen to first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from ai_edge_quantizer import algorithm_manager, calibrator, qtyping, quantizer, recipe, recipe_manager
from ai_edge_quantizer.utils import qsv_utils

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Made, QuantizedLayer, Reply, Request
from shoal_converters.paths.quantizing import (
    LARGEST_CHANGE,
    Calibration,
    Feeds,
    Options,
    check_options,
    describe_kinds,
    find_breaking,
    measure_groups,
    read_options,
    relative_change,
)
from shoal_converters.paths.signature import bind
from shoal_converters.paths.tflite_file import (
    add_signature,
    count_half_weights,
    fold_half_weights,
    has_integer_weights,
    list_operators,
    load,
    pack,
    read_file,
    read_quantization,
    read_signature,
    restore_outputs,
    unpack,
)

Recipe = list[dict[str, Any]]
Ranges = Mapping[str, Any]
Algorithm = algorithm_manager.AlgorithmName
Operation = qtyping.TFLOperationName

VERSION = version("ai-edge-quantizer")
PRECISIONS = {"tflite-fp16": "fp16", "tflite-int8": "int8", "tflite-int8-dynamic": "int8-weights"}
METHODS = {"minmax": qsv_utils.min_max_update, "mean": qsv_utils.moving_average_update}
"""How the range of a tensor goes on from call to call: `mean` is a moving one, which cuts outliers off."""
COMPUTING = frozenset(("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"))
DYNAMIC_RUNTIMES = ("litert", "openvino")
"""tflite-runtime 2.14 computes such files wrongly without a word: it takes the scales of channels for one of all."""


def convert(request: Request) -> Reply:
    """Write the variants that are asked for. Inputs and outputs stay float.

    Raises:
        BadModel: quantized already, or the tool or LiteRT doesn't take it.
        BadData: the calibration set doesn't fit.
        BadRecipe: wrong options.
    """
    options = read_options(request)
    check_options(options, methods=METHODS, switches=("is_compute_only",), what="AI Edge Quantizer")
    tool = Quantizer(request, options)
    if options.groups:
        return Reply(changes=tool.measure(request.variants[0]))
    replies = [tool.make(variant) for variant in request.variants]
    return Reply(
        made=tuple(made for reply in replies for made in reply.made),
        notes=tuple(note for reply in replies for note in reply.notes),
        layers=replies[0].layers,
        unquantizable=replies[0].unquantizable,
    )


class Quantizer:
    """A file that the tool takes, with the ranges of its tensors."""

    def __init__(self, request: Request, options: Options) -> None:
        self._request = request
        self._options = options
        self._source = Path(request.source).name
        self._given = read_file(Path(request.source))
        model = unpack(self._given)
        if has_integer_weights(model):
            raise BadModel(f"{self._source}: quantized already; its float original is needed")
        self._halves = count_half_weights(model)
        fold_half_weights(model)
        add_signature(model)
        self._signature = model.signatureDefs[0].signatureKey.decode()
        names = {model.subgraphs[0].tensors[one.tensorIndex].name: one.name for one in model.signatureDefs[0].inputs}
        self._arguments = {tensor.decode(): name.decode() for tensor, name in names.items()}
        self._float = pack(model)
        self._operators = list(list_operators(model))
        inputs, _ = read_signature(load(self._float, what=self._source))
        self._to_inputs = bind(request.inputs, inputs, what=f"{self._source}: inputs")
        self._ranges: Ranges | None = None

    def make(self, variant: str) -> Reply:
        """Write one variant."""
        if variant == "tflite-fp16" and self._halves:
            return self._write(variant, self._given, how="as given, with float16 weights", layers=())
        layers = self._list_layers(variant)
        content = self._quantize(variant, [layer.name for layer in layers])
        why = self._refusal(variant, content)
        if why is None:
            return self._write(variant, content, how=self._describe(variant, len(layers)), layers=layers)
        broken = find_breaking(
            [layer.name for layer in layers],
            lambda some: self._refusal(variant, self._quantize(variant, some)) is None,
        )
        kept = tuple(layer for layer in layers if layer.name not in broken)
        if not kept:
            raise BadModel(f"{self._source}: quantized, LiteRT doesn't run it, whatever is left in float: {why}")
        content = self._quantize(variant, [layer.name for layer in kept])
        reply = self._write(variant, content, how=self._describe(variant, len(kept)), layers=kept)
        left = tuple(layer for layer in layers if layer.name in broken)
        words = f"{variant}: with all operators quantized LiteRT doesn't run it ({why}); left in float: {_name(left)}"
        return msgspec.structs.replace(reply, unquantizable=left, notes=(words,))

    def measure(self, variant: str) -> tuple[float | None, ...]:
        """How far the outputs move, for each group of the options quantized alone."""
        calls = list(self._calibrate().read(0, self._options.measure_calls))
        reference = _run(self._float, calls, what=self._source)

        def measure(group: Sequence[str]) -> float:
            try:
                return relative_change(reference, _run(self._quantize(variant, group), calls, what=self._source))
            except BadModel:
                return LARGEST_CHANGE

        return measure_groups(self._options, measure)

    def _refusal(self, variant: str, content: bytes) -> str | None:
        """Why LiteRT doesn't load a file or compute the first call with it, None if it does."""
        try:
            if variant == "tflite-int8":
                _run(content, self._calibrate().read(0, 1), what=variant)
            else:
                load(content, what=variant)
        except BadModel as error:
            return f"{error}"
        return None

    def _list_layers(self, variant: str) -> tuple[QuantizedLayer, ...]:
        """Operators for which the tool has what the variant wants."""
        manager = recipe_manager.RecipeManager()
        manager.load_quantization_recipe(self._recipe(variant, ".*"))
        kinds = {kind.value: kind for kind in Operation}
        without = set(self._options.float_layers)
        layers = []
        for name, kind in self._operators:
            known = kinds.get(kind)
            if name in without or known is None or (self._options.is_compute_only and kind not in COMPUTING):
                continue
            algorithm, _ = manager.get_quantization_configs(known, name)
            if algorithm != Algorithm.NO_QUANTIZE:
                layers.append(QuantizedLayer(name, kind))
        return tuple(layers)

    def _recipe(self, variant: str, scope: str) -> Recipe:
        manager = recipe_manager.RecipeManager()
        granularity = (
            qtyping.QuantGranularity.CHANNELWISE if self._options.per_channel else qtyping.QuantGranularity.TENSORWISE
        )
        if variant == "tflite-fp16":
            config = qtyping.OpQuantizationConfig(
                weight_tensor_config=qtyping.TensorQuantizationConfig(num_bits=16, dtype=qtyping.TensorDataType.FLOAT),
                compute_precision=qtyping.ComputePrecision.FLOAT,
                explicit_dequantize=True,
            )
            manager.add_quantization_config(scope, Operation.ALL_SUPPORTED, config, Algorithm.FLOAT_CASTING)
        elif variant == "tflite-int8-dynamic":
            manager.add_dynamic_config(scope, Operation.ALL_SUPPORTED, 8, granularity)
        else:
            manager.add_static_config(scope, Operation.ALL_SUPPORTED, 8, 8, granularity)
            for side in (Operation.INPUT, Operation.OUTPUT):
                manager.add_quantization_config(scope, side, None, Algorithm.NO_QUANTIZE)
        made: Recipe = manager.get_quantization_recipe()
        return made

    def _quantize(self, variant: str, layers: Sequence[str]) -> bytes:
        tool = quantizer.Quantizer(self._float)
        scope = "|".join(f"^{re.escape(name)}$" for name in layers) or "(?!)"
        tool.load_quantization_recipe(self._recipe(variant, scope))
        try:
            ranges = self._measure_ranges() if variant == "tflite-int8" else None
            made = tool.quantize(ranges, enable_progress_bar=False, enable_progress_report=False).quantized_model
        except (ValueError, RuntimeError, KeyError, IndexError, NotImplementedError) as error:
            raise BadModel(f"{self._source}: no {variant} by AI Edge Quantizer {VERSION}: {error}"[:500]) from error
        restored = unpack(bytes(made))
        restore_outputs(restored, unpack(self._float))
        return pack(restored)

    def _measure_ranges(self) -> Ranges:
        if self._ranges is None:
            manager = recipe_manager.RecipeManager()
            manager.load_quantization_recipe(recipe.static_wi8_ai8())
            measuring = calibrator.Calibrator(self._float, num_threads=1, qsv_update_func=METHODS[self._options.method])
            for call in self._calibrate().read():
                feeds = {self._arguments[name]: array for name, array in call.items()}
                measuring.calibrate({self._signature: [feeds]}, manager)
            self._ranges = measuring.get_model_qsvs()
        return self._ranges

    def _calibrate(self) -> Calibration:
        return Calibration(self._request, bindings=self._to_inputs, limit=self._options.calls)

    def _describe(self, variant: str, layers: int) -> str:
        channels = "per channel" if self._options.per_channel else "per tensor"
        words = {
            "tflite-fp16": f"float16 weights, {layers} operators",
            "tflite-int8-dynamic": f"int8 weights {channels}, activations as they come, {layers} operators",
            "tflite-int8": f"int8 {channels}, {self._options.method}, {layers} of {len(self._operators)} operators",
        }
        return f"AI Edge Quantizer {VERSION}: {words[variant]}"

    def _write(self, variant: str, content: bytes, *, how: str, layers: tuple[QuantizedLayer, ...]) -> Reply:
        interpreter = load(content, what=f"{self._source} as {variant}")
        inputs, outputs = read_signature(interpreter)
        quantized = read_quantization(interpreter)
        file = f"{variant}.tflite"
        Path(self._request.folder, file).write_bytes(content)
        made = Made(
            name=variant,
            format="tflite",
            precision=PRECISIONS[variant],
            files=(file,),
            bindings=(
                *bind(self._request.inputs, inputs, what=f"{self._source}: inputs", quantized=quantized),
                *bind(self._request.outputs, outputs, what=f"{self._source}: outputs", quantized=quantized),
            ),
            how=how,
            runtimes=DYNAMIC_RUNTIMES if variant == "tflite-int8-dynamic" else (),
        )
        return Reply(made=(made,), layers=layers)


def _name(layers: Sequence[QuantizedLayer]) -> str:
    return f"{describe_kinds([layer.operator for layer in layers])} ({layers[0].name}{' …' if len(layers) > 1 else ''})"


def _run(content: bytes, calls: Iterable[Feeds], *, what: str) -> list[dict[str, Any]]:
    interpreter = load(content, what=what)
    indices = {details["name"]: details["index"] for details in interpreter.get_input_details()}
    results = []
    for call in calls:
        for name, array in call.items():
            interpreter.set_tensor(indices[name], array)
        try:
            interpreter.invoke()
        except RuntimeError as error:
            raise BadModel(f"{what}: LiteRT can't compute it: {error}"[:500]) from None
        results.append({one["name"]: interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()})
    return results
