"""How does a TFLite file become OpenVINO's intermediate representation? As an ONNX file does."""

from shoal_converters.paths.openvino_fp32 import convert

__all__ = ["convert"]
