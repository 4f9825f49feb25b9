"""What is the smallest model of each format, and what must it answer?

Each adds `left` and `right`, float32 of shape (1, 3), to one output. The numbers are small and whole, so that they are
the same in every float type and an engine has no excuse.
"""

import base64
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

FEEDS: Mapping[str, npt.NDArray[np.float32]] = {
    "left": np.array([[1, 2, 3]], np.float32),
    "right": np.array([[10, 20, 30]], np.float32),
}

_ONNX = (
    "CAg6aAoXCgRsZWZ0CgVyaWdodBIDc3VtIgNBZGQSBWdyYXBoWhYKBGxlZnQSDgoMCAESCAoCCAEKAggDWhcKBXJpZ2h0Eg4KDAgB"
    "EggKAggBCgIIA2IVCgNzdW0SDgoMCAESCAoCCAEKAggDQgQKABAN"
)
_TFLITE = (
    "CAAAAFRGTDPK////FAAAABwAAAAgAAAANAEAAAMAAAABAAAABAAAANT+//8BAAAAeAAAAAEAAAAUAAAAAAAOABgAFAAQAAwACAAEAA4A"
    "AAAUAAAAHAAAAFwAAABgAAAAaAAAAAQAAABtYWluAAAAAAEAAAAUAAAAAAAOABQAAAAQAAwACwAEAA4AAAAQAAAAAAAACwwAAAAQAAAA"
    "SP///wEAAAACAAAAAgAAAAAAAAABAAAAAQAAAAIAAAACAAAAAAAAAAEAAAADAAAAXAAAACgAAAAEAAAAvP///wgAAAAMAAAAAwAAAHN1"
    "bQACAAAAAQAAAAMAAADc////CAAAABAAAAAFAAAAcmlnaHQAAAACAAAAAQAAAAMAAAAMAAwACAAAAAAABAAMAAAACAAAABAAAAAEAAAA"
    "bGVmdAAAAAACAAAAAQAAAAMAAAABAAAACAAAAAQABAAEAAAA"
)
_OPENVINO = """<net name="sum" version="11"><layers>
<layer id="0" name="left" type="Parameter" version="opset1"><data shape="1,3" element_type="f32"/>
<output><port id="0" precision="FP32" names="left"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="1" name="right" type="Parameter" version="opset1"><data shape="1,3" element_type="f32"/>
<output><port id="0" precision="FP32" names="right"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="2" name="sum" type="Add" version="opset1"><data auto_broadcast="numpy"/>
<input><port id="0" precision="FP32"><dim>1</dim><dim>3</dim></port>
<port id="1" precision="FP32"><dim>1</dim><dim>3</dim></port></input>
<output><port id="2" precision="FP32" names="sum"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="3" name="result" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim><dim>3</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>"""

PROBE_MODELS: Mapping[str, tuple[bytes, ...]] = {
    "onnx": (base64.b64decode(_ONNX),),
    "tflite": (base64.b64decode(_TFLITE),),
    "openvino": (_OPENVINO.encode(), b""),
}
"""Files of the model by format. A plan for TensorRT is good for one board only, so that engine is probed with onnx."""


def expected_sum() -> npt.NDArray[np.float32]:
    """What each model must answer to FEEDS."""
    return FEEDS["left"] + FEEDS["right"]
