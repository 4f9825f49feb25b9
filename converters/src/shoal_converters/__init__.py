"""The workbench: from a trained model to a release."""

import os

# ONNX Runtime from 1.32 on reports to its makers what it does, unless it is told not to before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
