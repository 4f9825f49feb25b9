"""How does OpenVINO's intermediate representation get weights of 16 bits?"""

from pathlib import Path

from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.openvino_file import VERSION, read_model, save


def convert(request: Request) -> Reply:
    """Write the weights as float16. What the engine computes in is its own choice. Raises BadModel."""
    model = read_model(Path(request.source))
    how = f"OpenVINO {VERSION}, weights compressed to float16"
    return Reply(made=(save(model, request, name="openvino-fp16", precision="fp16", how=how, is_halved=True),))
