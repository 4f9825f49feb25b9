"""How does memory get onto an NVIDIA GPU and back, without a package for it?

Calls the driver's own library (CUDA Driver API reference), which is there wherever a GPU works, by ctypes.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from .errors import EngineFailed, EngineMissing

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_NAME_BYTES = 256


class CudaDriver:
    """The first GPU of the board, and a stream of work on it. Sizes are in bytes, addresses are the GPU's."""

    def __init__(self, library: Any = None) -> None:
        """Take the primary context of the first GPU, which TensorRT uses too.

        Raises:
            EngineMissing: no driver, or no GPU that it can use.
        """
        try:
            self._library = library if library is not None else ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise EngineMissing(f"no NVIDIA driver here: {error}") from error
        try:
            self._call("cuInit", ctypes.c_uint(0))
            self._device = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(0))
            self._context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
            self.enter_thread()
            self._stream = ctypes.c_void_p()
            self._call("cuStreamCreate", ctypes.byref(self._stream), ctypes.c_uint(0))
        except EngineFailed as error:
            raise EngineMissing(f"no GPU that works here: {error}") from error

    def enter_thread(self) -> None:
        """Make the GPU current in this thread: needed once in each that uses it."""
        self._call("cuCtxSetCurrent", self._context)

    @property
    def stream(self) -> int:
        """The stream's handle."""
        return self._stream.value or 0

    def describe(self) -> str:
        """Name and compute capability, as in "Orin (nvgpu), sm_87"."""
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", name, ctypes.c_int(_NAME_BYTES), self._device)
        major, minor = self._attribute(_CAPABILITY_MAJOR), self._attribute(_CAPABILITY_MINOR)
        return f"{name.value.decode(errors='replace')}, sm_{major}{minor}"

    def allocate(self, size_bytes: int) -> int:
        """Memory on the GPU."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size_bytes, 1)))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def copy_in(self, address: int, array: Array) -> None:
        """Start to copy a contiguous array to the GPU."""
        source = ctypes.c_void_p(array.ctypes.data)
        self._call(
            "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(array.nbytes), self._stream
        )

    def copy_out(self, array: Array, address: int) -> None:
        """Start to copy from the GPU into a contiguous array."""
        target = ctypes.c_void_p(array.ctypes.data)
        self._call(
            "cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes), self._stream
        )

    def wait(self) -> None:
        """Until all that was started on the stream is done."""
        self._call("cuStreamSynchronize", self._stream)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device)
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise EngineFailed(f"{name} failed with CUDA driver error {code}")
