"""Which intermediate tensors do two OpenVINO models share? Those of layers of the same name and type.

A tensor that goes through a FakeQuantize is looked at behind that: there it holds what the next layer gets.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal_converters.comparing.taps import Layers, Tap, Tapped, output_name
from shoal_converters.errors import BadModel

NO_LAYERS = ("Parameter", "Constant", "Result", "FakeQuantize", "Convert", "ReadValue", "Assign")
MOVING = (
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Pad", "StridedSlice", "Slice", "Split", "VariadicSplit"),
    *("Concat", "Broadcast", "Tile", "Gather"),
)
"""Layers that compute nothing: what they give differs as what they take."""
FLOATS = ("f32", "f16", "bf16", "f64")


def observe_openvino(first: Path, second: Path) -> Layers:
    """Find the tensors of floating point that both compute, outside of bodies of loops.

    Raises:
        BadModel: OpenVINO can't read a file.
    """
    places = [_look_at(_read(path)) for path in (first, second)]
    shared = [name for name, operator in places[0].items() if places[1].get(name) == operator]
    return Layers(
        taps=tuple(Tap(name, places[0][name], name, name) for name in shared),
        unmatched=len(places[0]) - len(shared),
        build=lambda some: Tapped(_add_outputs(first, some), _add_outputs(second, some)),
    )


def _read(path: Path) -> Any:
    # With None in its place, the package that reports over the network can't be imported by anybody.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    try:
        return openvino.Core().read_model(str(path))
    except Exception as error:  # whatever its bindings translate
        raise BadModel(f"{path}: OpenVINO can't read it: {error}"[:400]) from None


def _look_at(model: Any) -> dict[str, str]:
    """Type of each layer that computes numbers of floating point and whose output isn't the model's, by name."""
    found = {}
    for layer in model.get_ordered_ops():
        if layer.get_type_name() in (*NO_LAYERS, *MOVING) or layer.get_output_size() != 1 or _is_constant(layer):
            continue
        port = _behind_quantization(layer.output(0))
        ends = {target.get_node().get_type_name() for target in port.get_target_inputs()}
        if port.get_element_type().get_type_name() in FLOATS and "Result" not in ends:
            found[layer.get_friendly_name()] = layer.get_type_name()
    return found


def _is_constant(layer: Any) -> bool:
    """Whether it only unpacks weights."""
    sources = [layer.input_value(index).get_node() for index in range(layer.get_input_size())]
    return bool(sources) and all(
        source.get_type_name() == "Constant" or (source.get_type_name() in NO_LAYERS and _is_constant(source))
        for source in sources
    )


def _behind_quantization(port: Any) -> Any:
    for target in port.get_target_inputs():
        if target.get_node().get_type_name() == "FakeQuantize" and target.get_index() == 0:
            return target.get_node().output(0)
    return port


def _add_outputs(path: Path, taps: Sequence[Tap]) -> tuple[bytes, ...]:
    import openvino

    model = _read(path)
    layers = {layer.get_friendly_name(): layer for layer in model.get_ordered_ops()}
    for number, tap in enumerate(taps):
        port = _behind_quantization(layers[tap.name].output(0))
        port.get_tensor().set_names({output_name(number)})
        model.add_outputs([port])
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "model.xml"
        openvino.serialize(model, str(xml), str(xml.with_suffix(".bin")))
        return xml.read_bytes(), xml.with_suffix(".bin").read_bytes()
