"""How does a float32 ONNX file become one of 8-bit integers, between nodes that quantize and dequantize (QDQ)?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry
from onnxruntime.quantization.shape_inference import quant_pre_process

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Made, QuantizedLayer, Reply, Request
from shoal_converters.paths.onnx_file import load_session, name_nodes, read_model, read_signature, shorten, write_model
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

FILE = "model.onnx"
PREPARED = Path("prepared.onnx")
METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}
COMPUTING = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
PERCENTILE = 99.99
LEAST_OPSET, NEWER_OPSET = 13, 17
"""Of a file whose quantized values may have a scale for each channel, and to which older ones are converted."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Which integers."""

    activations: QuantType
    options: Mapping[str, Any]
    words: str


SCHEMES: Mapping[str, Scheme] = {
    # x86 multiplies unsigned activations by signed weights (VNNI); with signed ones there is no gain.
    "onnx-int8": Scheme(activations=QuantType.QUInt8, options={}, words="uint8 activations, int8 weights"),
    # TensorRT's parser takes no zero points but 0 and no int32 biases.
    "onnx-int8-tensorrt": Scheme(
        activations=QuantType.QInt8,
        options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
        words="symmetric int8 activations and weights, float biases",
    ),
}


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Gives a calibration set call by call. With the stride of 1, ranges are merged after each call: memory for one."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._left = calibration.read()

    def __len__(self) -> int:
        return len(self._calibration)

    def set_range(self, start_index: int, end_index: int) -> None:
        """What is given next."""
        self._left = self._calibration.read(start_index, end_index)

    def get_next(self) -> Feeds | None:
        """The next call, None after the last one."""
        return next(self._left, None)


def convert(request: Request) -> Reply:
    """Quantize, and see that ONNX Runtime takes the result; nodes that it doesn't take so are left in float.

    Raises:
        BadModel: the tool doesn't take the model, or the result doesn't load whatever is left out.
        BadData: the calibration set doesn't fit.
        BadRecipe: wrong options.
    """
    options = read_options(request)
    check_options(options, methods=METHODS, switches=("full_range", "is_compute_only"), what="ONNX Runtime")
    quantizer = Quantizer(request, options)
    if options.groups:
        return Reply(changes=quantizer.measure())
    replies = [quantizer.make(name) for name in request.variants]
    return Reply(
        made=tuple(made for reply in replies for made in reply.made),
        notes=tuple(note for reply in replies for note in reply.notes),
        layers=replies[0].layers,
        unquantizable=replies[0].unquantizable,
    )


class Quantizer:
    """A model with the ranges of its tensors."""

    def __init__(self, request: Request, options: Options) -> None:
        self._request = request
        self._options = options
        self._source = Path(request.source).name
        self._model = _prepare(Path(request.source))
        kinds = COMPUTING if options.is_compute_only else {*QDQRegistry, *QLinearOpsRegistry}
        self._layers = {node.name: node.op_type for node in self._model.graph.node if node.op_type in kinds}
        if not self._layers:
            inside = [kind for kind in _list_inside(self._model.graph) if kind in kinds]
            where = f"; {describe_kinds(inside)} lie in branches or loops, which it doesn't go into" if inside else ""
            raise BadModel(f"{self._source}: has no node that ONNX Runtime's tool quantizes{where}")
        inputs, outputs = read_signature(self._model)
        to_inputs = bind(request.inputs, inputs, what=f"{self._source}: inputs")
        self._bindings = (*to_inputs, *bind(request.outputs, outputs, what=f"{self._source}: outputs"))
        self._calibration = Calibration(request, bindings=to_inputs, limit=options.calls)

    def make(self, variant: str) -> Reply:
        """Write one variant.

        Raises:
            BadModel: as `convert` says.
        """
        layers = [name for name in self._layers if name not in set(self._options.float_layers)]
        quantized = self._quantize(variant, layers)
        why = self._refusal(quantized)
        broken: tuple[str, ...] = ()
        if why is not None:
            broken = find_breaking(layers, lambda some: self._refusal(self._quantize(variant, some)) is None)
            layers = [name for name in layers if name not in broken]
            quantized = self._quantize(variant, layers)
        if not layers:
            raise BadModel(f"{self._source}: quantized, ONNX Runtime doesn't run it, whatever is left in float: {why}")
        return self._write(variant, quantized, layers, broken=broken, why=why or "")

    def measure(self) -> tuple[float | None, ...]:
        """How far the outputs move, for each group of the options quantized alone."""
        calls = list(self._calibration.read(0, self._options.measure_calls))
        reference = _run(self._model, calls)

        def measure(group: Sequence[str]) -> float:
            quantized = self._quantize(self._request.variants[0], group)
            if self._refusal(quantized) is not None:
                return LARGEST_CHANGE
            return relative_change(reference, _run(quantized, calls))

        return measure_groups(self._options, measure)

    def _quantize(self, variant: str, layers: Sequence[str]) -> onnx.ModelProto:
        """Ranges are measured once, for all tensors, and kept in a file."""
        scheme = SCHEMES[variant]
        written = Path("quantized.onnx").absolute()
        try:
            quantize_static(
                PREPARED.absolute(),
                written,
                Reader(self._calibration),
                quant_format=QuantFormat.QDQ,
                per_channel=self._options.per_channel,
                reduce_range=not self._options.full_range,
                activation_type=scheme.activations,
                weight_type=QuantType.QInt8,
                nodes_to_quantize=list(layers),
                calibrate_method=METHODS[self._options.method],
                extra_options={**scheme.options, "CalibStridedMinMax": 1, "CalibPercentile": PERCENTILE},
                calibration_cache_path=Path(f"ranges-{self._options.method}.json").absolute(),
            )
        except Exception as error:  # whatever it meets in a graph
            raise BadModel(f"{self._source}: no INT8 by ONNX Runtime: {shorten(error)}") from error
        return onnx.load(written)

    def _refusal(self, model: onnx.ModelProto) -> str | None:
        """Why ONNX Runtime doesn't load a model or compute the first call with it, None if it does."""
        try:
            _run(model, list(self._calibration.read(0, 1)))
        except Exception as error:  # its exceptions have no other base
            return shorten(error)
        return None

    def _write(
        self, variant: str, model: onnx.ModelProto, layers: Sequence[str], *, broken: Sequence[str], why: str
    ) -> Reply:
        scheme = SCHEMES[variant]
        name = FILE if len(self._request.variants) == 1 else f"{variant}.onnx"
        write_model(model, Path(self._request.folder, name))
        made = Made(
            name=variant,
            format="onnx",
            precision="int8",
            files=(name,),
            bindings=self._bindings,
            how=(
                f"onnxruntime.quantization {onnxruntime.__version__}, onnx {onnx.__version__}: {scheme.words}, "
                f"{'' if self._options.full_range else 'of 7 bits as not every CPU has VNNI, '}"
                f"{self._options.method}, {'per channel' if self._options.per_channel else 'per tensor'}, "
                f"{len(layers)} of {len(self._layers)} nodes, {len(self._calibration)} calls"
            ),
        )
        notes = [
            f"{variant}: with all nodes quantized ONNX Runtime doesn't run it ({why}); left in float: "
            f"{self._describe(broken)}"
        ]
        return Reply(
            made=(made,),
            notes=tuple(notes if broken else ()),
            layers=self._list(layers),
            unquantizable=self._list(broken),
        )

    def _list(self, names: Sequence[str]) -> tuple[QuantizedLayer, ...]:
        return tuple(QuantizedLayer(name, self._layers[name]) for name in names)

    def _describe(self, names: Sequence[str]) -> str:
        kinds = describe_kinds([self._layers[name] for name in names])
        return f"{kinds} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"


def _prepare(source: Path) -> onnx.ModelProto:
    """Constants folded and batch normalisations in the convolutions before them, with all shapes that can be known."""
    model = read_model(source)
    try:
        if any(one.domain == "" and one.version < LEAST_OPSET for one in model.opset_import):
            model = onnx.version_converter.convert_version(model, NEWER_OPSET)
        write_model(model, PREPARED)
        quant_pre_process(PREPARED.absolute(), PREPARED.absolute(), skip_symbolic_shape=True)
    except Exception as error:  # whatever it meets in a graph
        raise BadModel(f"{source.name}: ONNX Runtime can't prepare it for INT8: {shorten(error)}") from error
    model = onnx.load(PREPARED)
    name_nodes(model)
    write_model(model, PREPARED)  # quantize_static changes a model that it is given as such
    return model


def _list_inside(graph: onnx.GraphProto) -> Iterator[str]:
    """Operators of the graphs within a graph's nodes."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from (one.op_type for one in inner.node)
                yield from _list_inside(inner)


def _run(model: onnx.ModelProto, calls: Sequence[Feeds]) -> list[dict[str, Any]]:
    session = load_session(model)
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, call), strict=True)) for call in calls]
