"""How does an ONNX file become OpenVINO's own intermediate representation?"""

import io
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from shoal_converters.errors import BuildFailed

# With None in its place, the package that reports over the network can't be imported by anybody.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino  # noqa: E402


class Representation(NamedTuple):
    """A description in XML, and the weights that it refers to."""

    xml: bytes
    weights: bytes


def convert_onnx(model: bytes) -> Representation:
    """Convert with OpenVINO's converter, weights as they are. The same bytes give the same bytes, by one version of it.

    Raises:
        BuildFailed: the converter doesn't take the model.
    """
    try:
        converted = openvino.convert_model(io.BytesIO(model))
        with tempfile.TemporaryDirectory() as folder:
            xml = Path(folder) / "model.xml"
            openvino.save_model(converted, str(xml), compress_to_fp16=False)
            return Representation(xml.read_bytes(), xml.with_suffix(".bin").read_bytes())
    except Exception as error:  # whatever its bindings translate
        raise BuildFailed(f"OpenVINO {openvino.__version__} can't convert the ONNX file: {error}") from error
