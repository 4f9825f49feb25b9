"""How does a SavedModel or a Keras file become a Core ML program?

Through the one function that serves it: given the folder, coremltools stops at those that Keras 3 writes beside it.
"""

import tensorflow

from shoal_converters.paths.coreml_export import describe_inputs, describe_outputs, export_coreml
from shoal_converters.paths.examples import fix_shapes
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.signature import narrow
from shoal_converters.paths.tensorflow_models import open_model, rename


def convert(request: Request) -> Reply:
    """Write one file.

    Raises:
        BadModel, BadRecipe, BadData: see `tensorflow_models` and `examples`.
        PathFailed: coremltools doesn't take the model.
    """
    with open_model(request) as model:
        inputs = rename(model.inputs, request.inputs, what="source.inputs")
        outputs = rename(model.outputs, request.outputs, what="source.outputs")
        names = sorted(one.name for one in model.outputs)
        graph_names = {name: tensor.op.name for name, tensor in zip(names, model.function.outputs, strict=True)}
        fixed = fix_shapes(request, narrow(inputs, request.inputs, bindings=()))
        made = export_coreml(
            [model.function],
            source="tensorflow",
            folder=request.folder,
            inputs=inputs,
            outputs=outputs,
            inputs_of_file=describe_inputs(fixed, [one.name for one in model.inputs]),
            outputs_of_file=describe_outputs(outputs, [graph_names[one.name] for one in model.outputs]),
            how=f"TensorFlow {tensorflow.__version__}",
        )
    return Reply(made=(made,), inputs=inputs, outputs=outputs)
