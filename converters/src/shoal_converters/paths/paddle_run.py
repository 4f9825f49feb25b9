"""What does a PaddlePaddle program answer in PaddlePaddle itself? A path that makes no form, but outputs."""

from pathlib import Path

import numpy as np
import paddle
from paddle import inference

from shoal_converters.errors import BadModel
from shoal_converters.paths.call_files import Tensors, answer_calls
from shoal_converters.paths.messages import Reply, Request

WEIGHTS = ".pdiparams"


def convert(request: Request) -> Reply:
    """Run every call, its inputs and outputs in the program's order, which is the signature's.

    Raises:
        BadModel: Paddle doesn't take the program, or it has another number of inputs or outputs.
        BadData: no calls.
    """
    source = Path(request.source)
    try:
        configuration = inference.Config(f"{source}", f"{source.with_suffix(WEIGHTS)}")
        configuration.switch_ir_optim(False)  # as it was saved, with nothing fused
        configuration.disable_glog_info()
        predictor = inference.create_predictor(configuration)
    except Exception as error:  # whatever its parser and its operators raise
        line = next(iter(f"{error}".strip().splitlines()), "")
        raise BadModel(f"{source}: PaddlePaddle doesn't take it: {line}") from error
    inputs, outputs = predictor.get_input_names(), predictor.get_output_names()
    if (len(inputs), len(outputs)) != (len(request.inputs), len(request.outputs)):
        expected = f"{len(request.inputs)} inputs and {len(request.outputs)} outputs"
        raise BadModel(f"{source}: expected {expected}, PaddlePaddle finds {len(inputs)} and {len(outputs)}")

    def answer(call: Tensors) -> Tensors:
        for mine, its in zip(request.inputs, inputs, strict=True):
            predictor.get_input_handle(its).copy_from_cpu(np.ascontiguousarray(call[mine.name]))
        predictor.run()
        found = [predictor.get_output_handle(name).copy_to_cpu() for name in outputs]
        return {mine.name: array for mine, array in zip(request.outputs, found, strict=True)}

    return answer_calls(request, answer, how=f"PaddlePaddle {paddle.__version__}")
