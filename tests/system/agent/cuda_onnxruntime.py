"""What stands in for the module `onnxruntime` of a board with a GPU, in a real worker?

It is installed under that name in an interpreter of its own and becomes the installed one, but for the parts that
`tests/fake_onnxruntime.py` plays. `cuda.json` beside it says whether the GPU's provider can start.
"""

import importlib.util
import json
import sys
from importlib.machinery import PathFinder
from pathlib import Path

HERE = Path(__file__).parent


def become_the_installed_one() -> None:
    spec = PathFinder.find_spec("onnxruntime", [path for path in sys.path if Path(path) != HERE])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnxruntime"] = module
    spec.loader.exec_module(module)
    from fake_onnxruntime import CPU, CUDA, FakeOnnxRuntime  # type: ignore[import-not-found]

    fake = FakeOnnxRuntime(operators={CUDA: 5, CPU: 1}, **json.loads((HERE / "cuda.json").read_text()))
    for name in ("get_available_providers", "InferenceSession"):
        setattr(module, name, getattr(fake, name))


become_the_installed_one()
