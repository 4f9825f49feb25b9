"""How does an ONNX file become a TFLite file? Through PyTorch and LiteRT's converter, for a batch of 1.

ONNX's own layout, channels first, stays: `channels_last` among the options puts pictures as TFLite has them.
"""

from shoal_converters.paths.litert_export import export_tflite, read_export_options
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.onnx_in_torch.source import HOW, open_onnx


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe, BadData, PathFailed: see `open_onnx` and `export_tflite`.
    """
    options = read_export_options(request)
    traced = open_onnx(request)
    made = export_tflite(
        traced.module,
        folder=request.folder,
        examples=traced.examples,
        inputs=traced.inputs,
        outputs=traced.outputs,
        is_channel_last=options.channels_last,
        how=f", {HOW}",
    )
    return Reply(made=(made,), inputs=traced.inputs, outputs=traced.outputs)
