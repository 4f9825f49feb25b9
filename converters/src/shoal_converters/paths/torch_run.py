"""What does a PyTorch model answer in PyTorch itself? A path that makes no form, but outputs."""

import torch

from shoal_converters.paths.call_files import Tensors, answer_calls
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.torch_models import load_module, name_outputs, run


def convert(request: Request) -> Reply:
    """Run every call, its inputs in the signature's order.

    Raises:
        BadModel, BadRecipe: see `torch_models`.
        BadData: no calls.
    """
    module = load_module(request)

    def answer(call: Tensors) -> Tensors:
        outputs = run(module, [call[one.name] for one in request.inputs])
        return dict(zip(name_outputs(request, count=len(outputs)), outputs, strict=True))

    return answer_calls(request, answer, how=f"PyTorch {torch.__version__}")
