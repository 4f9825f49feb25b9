"""How does an ONNX file become a Core ML program? Through PyTorch, as coremltools reads ONNX no more."""

from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.onnx_in_torch.source import HOW, open_onnx
from shoal_converters.paths.torch_coreml import trace_to_coreml


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe, BadData, PathFailed: see `open_onnx` and `trace_to_coreml`.
    """
    traced = open_onnx(request)
    made = trace_to_coreml(
        traced.module,
        folder=request.folder,
        examples=traced.examples,
        fixed=traced.fixed,
        inputs=traced.inputs,
        outputs=traced.outputs,
        how=f", {HOW}",
    )
    return Reply(made=(made,), inputs=traced.inputs, outputs=traced.outputs)
