"""How does LiteRT (ai-edge-litert) load and run a model here?"""

from __future__ import annotations

from collections.abc import Sequence

import ai_edge_litert
from ai_edge_litert.interpreter import Interpreter

from shoal_worker.engines import check_device, check_precision
from shoal_worker.engines.tflite_interpreter import FORMATS, PRECISIONS, TfliteEngine
from shoal_worker.messages import Load

__all__ = ["FORMATS", "load"]


def load(request: Load, *, files: Sequence[bytes]) -> TfliteEngine:
    """Load a model from its bytes.

    Raises:
        EngineMissing: a device that it doesn't know.
        ModelRefused: LiteRT doesn't take it, or it has inputs or outputs that are no plain tensors.
    """
    check_precision(request, known=PRECISIONS)
    check_device(request, devices=TfliteEngine.devices)
    version: str = ai_edge_litert.__version__
    return TfliteEngine(Interpreter, name="litert", version=version, model=files[0], threads=request.threads)
