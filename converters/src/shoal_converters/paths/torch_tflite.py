"""How does a PyTorch model become a TFLite file? Through LiteRT's converter, for a batch of 1."""

from shoal_converters.paths.examples import fix_shapes, make_examples
from shoal_converters.paths.litert_export import export_tflite, read_export_options
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.torch_models import FREE, find_outputs, list_inputs, load_module, make_exportable


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe, BadData: see `torch_models` and `examples`.
        PathFailed: the converter doesn't take the model.
    """
    options = read_export_options(request)
    module = load_module(request)
    inputs = list_inputs(request, module)
    is_free = any(one.shape[:1] == (FREE,) for one in inputs)
    outputs = find_outputs(request, module, lambda batch: make_examples(request, inputs, batch=batch), is_free=is_free)
    examples = make_examples(request, fix_shapes(request, inputs))
    made = export_tflite(
        make_exportable(module, examples),
        folder=request.folder,
        examples=examples,
        inputs=inputs,
        outputs=outputs,
        is_channel_last=options.channels_last,
        how="",
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs)
