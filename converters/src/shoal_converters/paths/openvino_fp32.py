"""How does an ONNX file become OpenVINO's intermediate representation, and what is checked of one that is given?"""

from pathlib import Path

from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.openvino_file import VERSION, convert_model, name_ports, read_model, read_signature, save
from shoal_converters.paths.signature import complete


def convert(request: Request) -> Reply:
    """Convert or read, and write with names as in the signature.

    Raises:
        BadModel: OpenVINO doesn't take it, or it has another signature.
    """
    source = Path(request.source)
    is_given = request.format == "openvino"
    model = read_model(source) if is_given else convert_model(source)
    inputs, outputs = read_signature(model)
    inputs = complete(request.inputs, inputs, what=f"{source.name}: inputs")
    outputs = complete(request.outputs, outputs, what=f"{source.name}: outputs")
    name_ports(model, inputs=inputs, outputs=outputs, what=source.name)
    how = f"as given, read by OpenVINO {VERSION}" if is_given else f"OpenVINO {VERSION} from {request.format}"
    return Reply(
        made=(save(model, request, name="openvino-fp32", precision="fp32", how=how),), inputs=inputs, outputs=outputs
    )
