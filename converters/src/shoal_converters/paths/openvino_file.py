"""How do the OpenVINO paths read and write its intermediate representation, and what signature has it?"""

from collections.abc import Callable, Sequence
from pathlib import Path

import openvino
from shoal_wire.manifest import Binding, Tensor

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Made, Request
from shoal_converters.paths.signature import bind

FILES = ("model.xml", "model.bin")
VERSION: str = openvino.__version__.partition("-")[0]
FREE = -1
DTYPES = {
    "boolean": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


def read_model(path: Path) -> openvino.Model:
    """Raises BadModel: OpenVINO doesn't read it."""
    return _call(lambda: openvino.Core().read_model(f"{path}"), path=path)


def convert_model(path: Path) -> openvino.Model:
    """Convert a file of another format. Raises BadModel: OpenVINO's converter doesn't take it."""
    return _call(lambda: openvino.convert_model(f"{path}"), path=path)


def read_signature(model: openvino.Model) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs, by the names under which an agent's engine knows them.

    Raises:
        BadModel: one that is no plain tensor of known rank.
    """
    return _read_ports(model.inputs), _read_ports(model.outputs)


def name_ports(model: openvino.Model, *, inputs: Sequence[Tensor], outputs: Sequence[Tensor], what: str) -> None:
    """Call inputs and outputs as the signature does, and only that: a port may have several names.

    Raises:
        BadModel: the signature is another one.
    """
    for ports, tensors, side in ((model.inputs, inputs, "inputs"), (model.outputs, outputs, "outputs")):
        found = _read_ports(ports)
        renamed = {binding.name: binding.tensor for binding in bind(tensors, found, what=f"{what}: {side}")}
        for port, tensor in zip(ports, found, strict=True):
            port.get_tensor().set_names({renamed.get(tensor.name, tensor.name)})


def save(
    model: openvino.Model, request: Request, *, name: str, precision: str, how: str, is_halved: bool = False
) -> Made:
    """Write both files; float weights as float16 if `is_halved`.

    Raises:
        BadModel: what was written has another signature than the request's, or can't be written.
    """
    path = Path(request.folder, FILES[0])
    _call(lambda: openvino.save_model(model, f"{path}", compress_to_fp16=is_halved), path=path)
    return Made(
        name=name,
        format="openvino",
        precision=precision,
        files=FILES,
        bindings=_bind(read_model(path), request),
        how=how,
    )


def _bind(model: openvino.Model, request: Request) -> tuple[Binding, ...]:
    inputs, outputs = read_signature(model)
    what = Path(request.source).name
    return (
        *bind(request.inputs, inputs, what=f"{what}: inputs"),
        *bind(request.outputs, outputs, what=f"{what}: outputs"),
    )


def _call(action: Callable[[], openvino.Model], *, path: Path) -> openvino.Model:
    try:
        return action()
    except Exception as error:  # whatever its bindings translate
        lines = [line.strip() for line in f"{error}".splitlines() if line.strip()]
        # The first lines say where in its sources it was noticed.
        raise BadModel(f"{path.name}: OpenVINO {VERSION} doesn't take it: {' / '.join(lines[-2:])[:500]}") from None


def _read_ports(ports: Sequence[openvino.Output]) -> tuple[Tensor, ...]:
    tensors = []
    for index, port in enumerate(ports):
        name = min(port.get_names(), default=f"{index}")  # as the agent's engine chooses
        kind = port.get_element_type().get_type_name()
        if kind not in DTYPES or port.partial_shape.rank.is_dynamic:
            raise BadModel(f"{name}: expected a plain tensor of known rank, found {kind} {port.partial_shape}")
        shape = tuple(length.get_length() if length.is_static else FREE for length in port.partial_shape)
        tensors.append(Tensor(name, DTYPES[kind], shape))
    return tuple(tensors)
