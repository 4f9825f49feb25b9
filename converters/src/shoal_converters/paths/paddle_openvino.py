"""How does a PaddlePaddle program become OpenVINO's intermediate representation? OpenVINO reads it, without Paddle.

It reads `.pdmodel` with `.pdiparams` beside it. Paddle 3 writes `.json` instead, which it can't; Paddle writes the
other where FLAGS_enable_pir_api=0 is in the environment before it is imported.
"""

from pathlib import Path

import openvino
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.openvino_file import VERSION, convert_model, read_signature, save

WEIGHTS = ".pdiparams"
NEWER = ".json"


def convert(request: Request) -> Reply:
    """Write both files, with inputs and outputs by the names that the recipe gives them, in their order.

    Raises:
        BadModel: OpenVINO doesn't read it, or the file of weights is missing.
        BadRecipe: another number of names.
    """
    source = Path(request.source)
    if source.suffix == NEWER:
        raise BadModel(
            f"{source}: a program in Paddle's newer form, which OpenVINO doesn't read; save it once more with "
            "FLAGS_enable_pir_api=0 in the environment, which gives .pdmodel and .pdiparams"
        )
    weights = source.with_suffix(WEIGHTS)
    if not weights.is_file():
        raise BadModel(f"{source}: expected its weights in {weights.name} beside it, found no such file")
    model = convert_model(source)
    _rename(model.inputs, request.inputs, what=f"{source.name}: source.inputs")
    _rename(model.outputs, request.outputs, what=f"{source.name}: source.outputs")
    inputs, outputs = read_signature(model)
    made = save(
        model,
        Request(source=request.source, format=request.format, folder=request.folder, variants=request.variants),
        name="openvino-fp32",
        precision="fp32",
        how=f"OpenVINO {VERSION} from PaddlePaddle",
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs)


def _rename(ports: list[openvino.Output], wanted: tuple[Tensor, ...], *, what: str) -> None:
    """One name for each port: Paddle gives some several."""
    names = [one.name for one in wanted] or [
        min(port.get_names(), default=f"{place}") for place, port in enumerate(ports)
    ]
    if len(names) != len(ports):
        raise BadRecipe(f"{what} has {', '.join(names)}; the program has {len(ports)}")
    for port, name in zip(ports, names, strict=True):
        port.get_tensor().set_names({name})
