"""How does a SavedModel or a Keras file become an ONNX file? By tf2onnx, which is run as its authors mean it to be."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import onnx
import tensorflow

from shoal_converters.errors import PathFailed
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.signature import bind
from shoal_converters.paths.tensorflow_models import SIGNATURE, open_model, rename

FILE = "model.onnx"
OPSET = 17
"""The newest but one that tf2onnx knows well; what it makes of that is read everywhere."""
LAST_LINES = 3


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe: see `tensorflow_models`.
        PathFailed: tf2onnx doesn't take the model.
    """
    with open_model(request) as model:
        inputs = rename(model.inputs, request.inputs, what="source.inputs")
        outputs = rename(model.outputs, request.outputs, what="source.outputs")
        path = Path(request.folder, FILE)
        _run(model.folder, path)
    content = onnx.load(path)
    path.write_bytes(content.SerializeToString(deterministic=True))
    found = {one.name for one in (*content.graph.input, *content.graph.output)}
    missing = [one.name for one in (*model.inputs, *model.outputs) if one.name not in found]
    if missing:
        raise PathFailed(f"tf2onnx left out {', '.join(missing)}; its file has {', '.join(sorted(found))}")
    made = Made(
        name="onnx-fp32",
        format="onnx",
        precision="fp32",
        files=(FILE,),
        bindings=bind(inputs, model.inputs, what="inputs") + bind(outputs, model.outputs, what="outputs"),
        how=f"tf2onnx {version('tf2onnx')}, TensorFlow {tensorflow.__version__}, opset {OPSET}",
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs)


def _run(folder: str, path: Path) -> None:
    options = ["--saved-model", folder, "--tag", "serve", "--signature_def", SIGNATURE]
    command = [sys.executable, "-m", "tf2onnx.convert", *options, "--output", f"{path}", "--opset", f"{OPSET}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode or not path.is_file():
        last = " / ".join(done.stderr.strip().splitlines()[-LAST_LINES:])
        raise PathFailed(f"tf2onnx doesn't take the model: {last}")
