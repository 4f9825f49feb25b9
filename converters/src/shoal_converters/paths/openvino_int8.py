"""How does OpenVINO's intermediate representation become one of 8-bit integers? By NNCF, with a calibration set."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nncf
import openvino
from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix, QuantizationParameters
from nncf.quantization.range_estimator import RangeEstimatorParametersSet

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import QuantizedLayer, Reply, Request
from shoal_converters.paths.openvino_file import VERSION, read_model, read_signature, save
from shoal_converters.paths.quantizing import (
    Calibration,
    Feeds,
    Options,
    check_options,
    measure_groups,
    read_options,
    relative_change,
)
from shoal_converters.paths.signature import bind

METHODS = {
    "minmax": RangeEstimatorParametersSet.MINMAX,
    "mean": RangeEstimatorParametersSet.MEAN_MINMAX,
    "percentile": RangeEstimatorParametersSet.MEAN_QUANTILE,
    "histogram": RangeEstimatorParametersSet.HISTOGRAM,
}
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
MOVING = frozenset(
    ("Concat", "Gather", "MaxPool", "Pad", "Reshape", "Slice", "Split", "Squeeze", "StridedSlice", "Transpose")
) | {"Unsqueeze", "VariadicSplit"}
"""Operators that quantized values pass through as they are: leaving one in float changes nothing."""
PASSIVE = frozenset(("Constant", "FakeQuantize", "Result", "ShapeOf"))
MEASURED_CALLS = 16
"""From which ranges are taken while the sensitivity of single layers is measured."""


def convert(request: Request) -> Reply:
    """Quantize.

    Raises:
        BadModel: NNCF or OpenVINO doesn't take the model.
        BadData: the calibration set doesn't fit.
        BadRecipe: wrong options.
    """
    options = read_options(request)
    check_options(options, methods=METHODS, switches=("full_range", "correct_bias", "smooth"), what="NNCF")
    quantizer = Quantizer(request, options)
    return Reply(changes=quantizer.measure()) if options.groups else quantizer.make()


class Quantizer:
    """A model with its calibration set."""

    def __init__(self, request: Request, options: Options) -> None:
        self._request = request
        self._options = options
        self._source = Path(request.source)
        model = read_model(self._source)
        inputs, _ = read_signature(model)
        bindings = bind(request.inputs, inputs, what=f"{self._source.name}: inputs")
        self._calibration = Calibration(request, bindings=bindings, limit=options.calls)
        self._operators = [operator.get_friendly_name() for operator in model.get_ordered_ops()]

    def make(self) -> Reply:
        """Write the variant."""
        one = self._options
        model = self._quantize(one.float_layers, calls=len(self._calibration))
        layers = _list_layers(model)
        words = [
            "mixed preset",
            one.method,
            "per channel" if one.per_channel else "per tensor",
            *([] if one.full_range else ["weights of 7 bits as not every CPU has VNNI"]),
            *(["bias correction layer by layer"] if one.correct_bias else []),
            *(["SmoothQuant"] if one.smooth else []),
            f"{len(layers)} operators, {len(self._calibration)} calls",
        ]
        how = f"NNCF {nncf.__version__}, OpenVINO {VERSION}: {', '.join(words)}"
        made = save(model, self._request, name="openvino-int8", precision="int8", how=how)
        return Reply(made=(made,), layers=layers)

    def measure(self) -> tuple[float | None, ...]:
        """How far the outputs move, for each group of the options quantized alone."""
        calls = list(self._calibration.read(0, self._options.measure_calls))
        reference = _run(read_model(self._source), calls)

        def measure(group: Sequence[str]) -> float:
            others = [name for name in self._operators if name not in set(group)]
            return relative_change(reference, _run(self._quantize(others, calls=MEASURED_CALLS), calls))

        return measure_groups(self._options, measure)

    def _quantize(self, float_layers: Sequence[str], *, calls: int) -> openvino.Model:
        one = self._options
        ranges = METHODS[one.method]
        try:
            return nncf.quantize(
                read_model(self._source),
                nncf.Dataset(_Calls(self._calibration)),
                preset=nncf.QuantizationPreset.MIXED,
                subset_size=min(calls, len(self._calibration)),
                fast_bias_correction=not one.correct_bias,
                model_type=nncf.ModelType.TRANSFORMER if one.smooth else None,
                ignored_scope=nncf.IgnoredScope(names=list(float_layers), validate=False),
                advanced_parameters=AdvancedQuantizationParameters(
                    overflow_fix=OverflowFix.DISABLE if one.full_range else OverflowFix.ENABLE,
                    weights_quantization_params=QuantizationParameters(per_channel=one.per_channel),
                    activations_range_estimator_params=ranges,
                ),
            )
        except Exception as error:  # whatever it meets in a graph
            lines = [line.strip() for line in f"{error}".splitlines() if line.strip()] or [type(error).__name__]
            raise BadModel(f"{self._source.name}: no INT8 by NNCF {nncf.__version__}: {lines[-1][:500]}") from error


class _Calls:
    """A calibration set that can be gone through several times."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration

    def __iter__(self) -> Iterator[Feeds]:
        return self._calibration.read()

    def __len__(self) -> int:
        return len(self._calibration)


def _list_layers(model: openvino.Model) -> tuple[QuantizedLayer, ...]:
    """Operators that compute from quantized activations, also where these were only moved in between."""
    moved: dict[str, bool] = {}
    layers = []
    for operator in model.get_ordered_ops():
        name, kind = operator.get_friendly_name(), operator.get_type_name()
        sources = [value.get_node() for value in operator.input_values()]
        is_fed = any(one.get_type_name() == "FakeQuantize" or moved.get(one.get_friendly_name()) for one in sources)
        if kind in MOVING:
            moved[name] = is_fed
        elif is_fed and kind not in PASSIVE:
            layers.append(QuantizedLayer(name, kind))
    return tuple(layers)


def _run(model: openvino.Model, calls: Sequence[Feeds]) -> list[dict[str, Any]]:
    _, outputs = read_signature(model)
    request = openvino.Core().compile_model(model, "CPU", EXACT).create_infer_request()
    results = []
    for call in calls:
        found = request.infer(call)
        results.append({tensor.name: found[index].copy() for index, tensor in enumerate(outputs)})
    return results
