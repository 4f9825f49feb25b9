"""What does a SavedModel or a Keras file answer in TensorFlow itself? A path that makes no form, but outputs."""

import tensorflow

from shoal_converters.paths.call_files import Tensors, answer_calls
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.tensorflow_models import open_model, rename


def convert(request: Request) -> Reply:
    """Run every call through the function that serves the model.

    Raises:
        BadModel, BadRecipe: see `tensorflow_models`.
        BadData: no calls.
    """
    with open_model(request) as model:
        inputs = rename(model.inputs, request.inputs, what="source.inputs")
        outputs = rename(model.outputs, request.outputs, what="source.outputs")

        def answer(call: Tensors) -> Tensors:
            feeds = {
                its.name: tensorflow.constant(call[mine.name]) for mine, its in zip(inputs, model.inputs, strict=True)
            }
            found = model.function(**feeds)
            return {mine.name: found[its.name].numpy() for mine, its in zip(outputs, model.outputs, strict=True)}

        return answer_calls(request, answer, how=f"TensorFlow {tensorflow.__version__}")
