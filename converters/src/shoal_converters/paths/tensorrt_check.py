"""Does TensorRT take an ONNX file? Its parser reads it and its builder compiles it, neither of which needs a GPU.

TensorRT-RTX is what can be installed everywhere; TensorRT proper on a board has the same parser. An engine isn't run.
"""

from pathlib import Path
from typing import Any

import tensorrt_rtx

from shoal_converters.paths.messages import Reply, Request

ARCHITECTURES = ("SM86", "SM89")
"""Compute capabilities to build for: Ampere and Ada, the nearest to the boards' that it lists."""
FREE = -1
MAX_BATCH = 32
MAX_ERRORS = 3


def convert(request: Request) -> Reply:
    """Parse and build; makes no form. A note says that it works, or the variants are refused with the reason."""
    reason, sentence = check(Path(request.source).read_bytes())
    if reason:
        return Reply(refused=dict.fromkeys(request.variants, f"{TOOL} doesn't take it: {reason}"))
    return Reply(notes=tuple(f"{variant}: {sentence}" for variant in request.variants))


TOOL = f"TensorRT-RTX {tensorrt_rtx.__version__}"


def check(model: bytes) -> tuple[str, str]:
    """Why it isn't taken, or else a sentence that it is."""
    logger = tensorrt_rtx.Logger(tensorrt_rtx.Logger.ERROR)
    builder = tensorrt_rtx.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt_rtx.OnnxParser(network, logger)
    if not parser.parse(model):
        errors = [parser.get_error(place) for place in range(min(parser.num_errors, MAX_ERRORS))]
        reasons = [f"node {one.node_name() or one.node()} ({one.node_operator()}): {one.desc()}" for one in errors]
        return "; ".join(reasons) or "its parser gives no reason", ""
    options = builder.create_builder_config()
    options.num_compute_capabilities = len(ARCHITECTURES)
    for place, name in enumerate(ARCHITECTURES):
        options.set_compute_capability(getattr(tensorrt_rtx.ComputeCapability, name), place)
    unbounded = _bound_shapes(builder, network, options)
    if unbounded:
        return "", f"{TOOL} parses it; not built, since {unbounded} has free axes beside the batch"
    engine = builder.build_serialized_network(network, options)
    if engine is None:
        return f"its parser does, its builder doesn't for {' and '.join(ARCHITECTURES)}", ""
    return "", f"{TOOL} parses it and builds an engine of {engine.nbytes} bytes for {' and '.join(ARCHITECTURES)}"


def _bound_shapes(builder: Any, network: Any, options: Any) -> str:
    """Say how large a free batch may get. Gives the name of an input that has another free axis."""
    profile = builder.create_optimization_profile()
    for place in range(network.num_inputs):
        tensor = network.get_input(place)
        shape = tuple(tensor.shape)
        if FREE in shape[1:]:
            return f"{tensor.name}"
        if FREE in shape:
            one, most = (1, *shape[1:]), (MAX_BATCH, *shape[1:])
            profile.set_shape(tensor.name, one, one, most)
    options.add_optimization_profile(profile)
    return ""
