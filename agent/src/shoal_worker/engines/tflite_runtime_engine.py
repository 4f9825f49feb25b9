"""How does tflite-runtime 2.14, the last of its line, load and run a model here?

It was built for NumPy 1, and with NumPy 2 fails only once an interpreter is made. Damaged bytes can end its process;
what can be seen of that and of a wrong answer beforehand is refused (`shoal_worker.tflite_file`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import tflite_runtime
from tflite_runtime.interpreter import Interpreter

from shoal_worker.engines import check_device, check_precision
from shoal_worker.engines.tflite_interpreter import FORMATS, PRECISIONS, TfliteEngine
from shoal_worker.errors import EngineMissing, ModelRefused
from shoal_worker.messages import Load
from shoal_worker.tflite_file import BrokenFile, find_per_channel_hybrid

__all__ = ["FORMATS", "load"]


def load(request: Load, *, files: Sequence[bytes]) -> TfliteEngine:
    """Load a model from its bytes.

    Raises:
        EngineMissing: the interpreter has a NumPy that it can't use, or a device that it doesn't know.
        ModelRefused: tflite-runtime doesn't take it or would answer wrongly, or it has inputs or outputs that are no
            plain tensors.
    """
    if int(np.__version__.split(".")[0]) > 1:
        raise EngineMissing(f"tflite-runtime needs NumPy 1, {sys.executable} has {np.__version__}")
    check_precision(request, known=PRECISIONS)
    check_device(request, devices=TfliteEngine.devices)
    try:
        wrong = find_per_channel_hybrid(files[0])
    except BrokenFile as error:
        raise ModelRefused(f"tflite-runtime doesn't take the model: {error}") from error
    if wrong is not None:
        raise ModelRefused(
            f"tflite-runtime {tflite_runtime.__version__} would answer wrongly: {wrong} has float inputs and INT8 "
            "weights with a scale for each channel (dynamic range), of which it knows one scale for all only; "
            "serve it with litert, or quantize it fully or for each tensor"
        )
    version: str = tflite_runtime.__version__
    return TfliteEngine(Interpreter, name="tflite-runtime", version=version, model=files[0], threads=request.threads)
