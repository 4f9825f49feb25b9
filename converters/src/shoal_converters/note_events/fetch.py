"""Which files are the network? Two forms of it, from the wheel `basic-pitch` 0.4.0."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from shoal_converters.wheels import WheelFile, fetch_files

NOTE_EVENTS = WheelFile(
    requirement="basic-pitch==0.4.0",
    wheel="basic_pitch-0.4.0-py2.py3-none-any.whl",
    wheel_sha256="738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
    member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
    member_sha256="2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
)

NOTE_EVENTS_TFLITE = replace(
    NOTE_EVENTS,
    member="basic_pitch/saved_models/icassp_2022/nmp.tflite",
    member_sha256="3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
)
"""The same network for LiteRT and its like. Inputs and outputs have the same names."""


class NetworkFiles(NamedTuple):
    """The bytes of both forms."""

    onnx: bytes
    tflite: bytes


def fetch_network(cache: Path) -> NetworkFiles:
    """Both forms, from the cache or else from the wheel. Raises FetchFailed."""
    onnx, tflite = fetch_files([NOTE_EVENTS, NOTE_EVENTS_TFLITE], cache=cache)
    return NetworkFiles(onnx.read_bytes(), tflite.read_bytes())
