"""What stands in for the Python module `tensorrt` and NVIDIA's driver library where there is no GPU?

`FakeTensorRt` has what an engine uses of the module, with the names, arguments and answers of TensorRT 10, and records
what it is asked for in `calls`. It "builds" a plan that says for which GPU and version it is good, and refuses any
other, as the real one does; what it computes is always a sum of two inputs. `FakeCudaLibrary` keeps the GPU's memory in
a dictionary. Whether the names exist in a real build of the library is tested where one is installed.
"""

from __future__ import annotations

import ctypes
import enum
import json
from typing import Any

import numpy as np

CAPABILITY = {75: 8, 76: 7}  # CUdevice_attribute: major, minor


class FakeCudaLibrary:
    """The functions of libcuda.so.1 that are called, by the same names. Returns 0 or `error` as their CUresult."""

    def __init__(self, *, name: str = "Orin", error: int = 0) -> None:
        self.name = name
        self.error = error
        self.memory: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        self._last = 0

    def __getattr__(self, name: str) -> Any:
        if name not in ("cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuInit", "cuCtxSetCurrent"):
            raise AttributeError(name)
        return lambda *arguments: self.error

    def cuDeviceGetName(self, buffer: Any, length: Any, device: Any) -> int:
        buffer.value = self.name.encode()
        return self.error

    def cuDeviceGetAttribute(self, value: Any, attribute: Any, device: Any) -> int:
        value._obj.value = CAPABILITY[attribute.value]
        return self.error

    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:
        self._last += 1 << 20
        self.memory[self._last] = np.zeros(size.value, np.uint8)
        address._obj.value = self._last
        return self.error

    def cuMemFree_v2(self, address: Any) -> int:
        del self.memory[address.value]
        return self.error

    def cuMemcpyHtoDAsync_v2(self, address: Any, source: Any, size: Any, stream: Any) -> int:
        self.memory[address.value][: size.value] = np.frombuffer(ctypes.string_at(source.value, size.value), np.uint8)
        return self.error

    def cuMemcpyDtoHAsync_v2(self, target: Any, address: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(target.value, self.memory[address.value].tobytes(), size.value)
        return self.error

    def cuStreamSynchronize(self, stream: Any) -> int:
        return self.error


class TensorIOMode(enum.Enum):
    NONE, INPUT, OUTPUT = range(3)


class DataType(enum.Enum):
    FLOAT, HALF, INT8, INT32, BOOL, UINT8, FP8, BF16, INT64 = range(9)


class LayerType(enum.Enum):
    ELEMENTWISE, QUANTIZE = range(2)


class BuilderFlag(enum.Enum):
    FP16, INT8, TF32 = range(3)


class NetworkDefinitionCreationFlag(enum.IntEnum):
    EXPLICIT_BATCH, STRONGLY_TYPED = range(2)


class FakeTensorRt:
    """The module `tensorrt`, on a board with the GPU of `cuda`. `first` is the first length of both inputs."""

    TensorIOMode, DataType, LayerType, BuilderFlag = TensorIOMode, DataType, LayerType, BuilderFlag
    NetworkDefinitionCreationFlag = NetworkDefinitionCreationFlag

    def __init__(
        self,
        cuda: FakeCudaLibrary,
        *,
        version: str = "10.3.0",
        lengths: tuple[int, ...] = (-1, 3),
        quantized: bool = False,
    ) -> None:
        self.__version__ = version
        self.cuda = cuda
        self.lengths = lengths
        self.layers = [LayerType.ELEMENTWISE] + [LayerType.QUANTIZE] * quantized
        self.calls: list[tuple[Any, ...]] = []

    class Logger:
        ERROR = 1

        def __init__(self, severity: int) -> None:
            self.severity = severity

    def Builder(self, logger: Logger) -> FakeBuilder:
        return FakeBuilder(self)

    def OnnxParser(self, network: FakeNetwork, logger: Logger) -> FakeParser:
        return FakeParser()

    def Runtime(self, logger: Logger) -> FakeRuntime:
        return FakeRuntime(self)

    def board(self) -> dict[str, str]:
        """What a plan is good for."""
        return {"version": self.__version__, "gpu": self.cuda.name}


class FakeParser:
    """Takes whatever begins like an ONNX file: with its version, field 1."""

    num_errors = 1

    def parse(self, model: bytes) -> bool:
        return model[:1] == b"\x08"

    def get_error(self, index: int) -> FakeParser:
        return self

    def desc(self) -> str:
        return "Failed to parse the ONNX model."


class FakeTensor:
    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape


class FakeLayer:
    def __init__(self, kind: LayerType) -> None:
        self.type = kind


class FakeNetwork:
    num_inputs = 2

    def __init__(self, library: FakeTensorRt) -> None:
        self._library = library
        self.num_layers = len(library.layers)

    def get_input(self, index: int) -> FakeTensor:
        return FakeTensor(("left", "right")[index], self._library.lengths)

    def get_layer(self, index: int) -> FakeLayer:
        return FakeLayer(self._library.layers[index])


class FakeBuilder:
    """Also its own configuration and optimization profile: it only writes down what is set."""

    def __init__(self, library: FakeTensorRt) -> None:
        self._library = library
        self._largest: dict[str, tuple[int, ...]] = {}

    def create_network(self, flags: int) -> FakeNetwork:
        self._library.calls.append(("create_network", flags))
        return FakeNetwork(self._library)

    def create_builder_config(self) -> FakeBuilder:
        return self

    def create_optimization_profile(self) -> FakeBuilder:
        return self

    def set_flag(self, flag: BuilderFlag) -> None:
        self._library.calls.append(("set_flag", flag))

    def clear_flag(self, flag: BuilderFlag) -> None:
        self._library.calls.append(("clear_flag", flag))

    def set_shape(self, name: str, least: tuple[int, ...], usual: tuple[int, ...], most: tuple[int, ...]) -> None:
        self._library.calls.append(("set_shape", name, least, usual, most))
        self._largest[name] = most

    def add_optimization_profile(self, profile: FakeBuilder) -> int:
        return 0

    def build_serialized_network(self, network: FakeNetwork, config: FakeBuilder) -> bytes:
        plan = {**self._library.board(), "lengths": self._library.lengths, "largest": self._largest}
        return json.dumps(plan).encode()


class FakeRuntime:
    def __init__(self, library: FakeTensorRt) -> None:
        self._library = library

    def deserialize_cuda_engine(self, plan: bytes) -> FakeEngine | None:
        try:
            said = json.loads(plan)
        except ValueError:
            return None
        return FakeEngine(self._library, said) if self._library.board().items() <= said.items() else None


class FakeEngine:
    num_io_tensors = 3
    _NAMES = ("left", "right", "sum")

    def __init__(self, library: FakeTensorRt, said: dict[str, Any]) -> None:
        self.library = library
        self.said = said

    def get_tensor_name(self, index: int) -> str:
        return self._NAMES[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.OUTPUT if name == "sum" else TensorIOMode.INPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return DataType.FLOAT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.said["lengths"])

    def create_execution_context(self) -> FakeContext:
        return FakeContext(self)


class FakeContext:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        most = self._engine.said["largest"].get(name, shape)
        self._shapes[name] = shape
        return all(length <= limit for length, limit in zip(shape, most, strict=True))

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._shapes.get(name, self._shapes["left"])

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        memory = self._engine.library.cuda.memory
        size = int(np.prod(self._shapes["left"]))
        left, right, total = (memory[self._addresses[name]].view(np.float32) for name in ("left", "right", "sum"))
        total[:size] = left[:size] + right[:size]
        return True
