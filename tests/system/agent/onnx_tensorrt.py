"""What stands in for the module `tensorrt` in a real worker?

It is installed under that name in an interpreter of its own. Its plan holds the ONNX model and says for which version
and GPU it is good; it runs a plan by ONNX Runtime, between memories of a GPU that isn't there. `tensorrt.json` beside
it says which version it plays, and whether plans answer nothing but zeros. Each build and load is written down in the
file `sys.tensorrt_log`, which the interpreter opened as it started: a worker opens none to write. Names and arguments
are those of `tests/fake_tensorrt.py`, which a real build was compared with.
"""

import base64
import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from fake_tensorrt import (  # type: ignore[import-not-found]
    DataType,
    FakeBuilder,
    FakeCudaLibrary,
    FakeTensor,
    FakeTensorRt,
    TensorIOMode,
)

HERE = Path(__file__).parent
PROBED_VALUES = 3
"""An output of so many values is that of the model that engines are probed with, which is answered rightly."""


def note(act: str, model: bytes) -> None:
    log = sys.tensorrt_log  # type: ignore[attr-defined]
    log.write(f"{act} {len(model)}\n")
    log.flush()


class Network:
    num_layers = 0

    def __init__(self) -> None:
        self.model = b""
        self.inputs: list[Any] = []

    @property
    def num_inputs(self) -> int:
        return len(self.inputs)

    def get_input(self, index: int) -> Any:
        return FakeTensor(self.inputs[index].name, lengths(self.inputs[index].shape))


class Parser:
    num_errors = 0

    def __init__(self, network: Network) -> None:
        self._network = network

    def parse(self, model: bytes) -> bool:
        self._network.inputs = onnxruntime.InferenceSession(model).get_inputs()
        self._network.model = model
        return True


class Builder(FakeBuilder):  # type: ignore[misc]
    def create_network(self, flags: int) -> Network:
        return Network()

    def build_serialized_network(self, network: Network, config: Any) -> bytes:
        note("build", network.model)
        plan = {**self._library.board(), "model": base64.b64encode(network.model).decode()}
        return json.dumps(plan).encode()


class Engine:
    def __init__(self, library: Any, model: bytes) -> None:
        self.library = library
        self.session = onnxruntime.InferenceSession(model)
        self.inputs = {tensor.name: tensor for tensor in self.session.get_inputs()}
        self.tensors = {**self.inputs, **{tensor.name: tensor for tensor in self.session.get_outputs()}}
        self.num_io_tensors = len(self.tensors)

    def get_tensor_name(self, index: int) -> str:
        name: str = list(self.tensors)[index]
        return name

    def get_tensor_mode(self, name: str) -> Any:
        return TensorIOMode.INPUT if name in self.inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return DataType.FLOAT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return lengths(self.tensors[name].shape)

    def create_execution_context(self) -> "Context":
        return Context(self)


class Context:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self._shapes[name] = shape
        return True

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        rows = next(iter(self._shapes.values()))[0]
        return tuple(rows if length < 0 else length for length in self._engine.get_tensor_shape(name))

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        memory = self._engine.library.cuda.memory
        feeds = {}
        for name, shape in self._shapes.items():
            values = memory[self._addresses[name]].view(np.float32)
            feeds[name] = values[: int(np.prod(shape))].reshape(shape)
        names = [name for name in self._engine.tensors if name not in self._engine.inputs]
        for name, array in zip(names, self._engine.session.run(names, feeds), strict=True):
            answer = 0 * array if self._engine.library.answers_zeros and array.size > PROBED_VALUES else array
            memory[self._addresses[name]].view(np.float32)[: array.size] = answer.ravel()
        return True


class Runtime:
    def __init__(self, library: Any) -> None:
        self._library = library

    def deserialize_cuda_engine(self, plan: bytes) -> Engine | None:
        said = json.loads(plan)
        if not self._library.board().items() <= said.items():
            return None
        model = base64.b64decode(said["model"])
        note("load", model)
        return Engine(self._library, model)


class OnnxTensorRt(FakeTensorRt):  # type: ignore[misc]
    def __init__(self, cuda: Any, *, version: str, answers_zeros: bool) -> None:
        super().__init__(cuda, version=version)
        self.answers_zeros = answers_zeros

    def Builder(self, logger: Any) -> Builder:
        return Builder(self)

    def OnnxParser(self, network: Network, logger: Any) -> Parser:
        return Parser(network)

    def Runtime(self, logger: Any) -> Runtime:
        return Runtime(self)


def lengths(shape: list[Any]) -> tuple[int, ...]:
    return tuple(length if isinstance(length, int) else -1 for length in shape)


CUDA = FakeCudaLibrary()
REAL = ctypes.CDLL
ctypes.CDLL = lambda name, *rest, **named: CUDA if name == "libcuda.so.1" else REAL(name, *rest, **named)  # type: ignore[assignment, misc]
# Who imports `tensorrt` gets the fake itself.
sys.modules[__name__] = OnnxTensorRt(CUDA, **json.loads((HERE / "tensorrt.json").read_text()))
