"""Which pre- and post-processing may fit a signature? A first guess, for a person to correct.

A signature tells shapes, not colours, scales or rates. What can't be seen is guessed as most models have it: red,
green, blue from 0 to 1; sound at 16 kHz; classes as logits unless an output's name says otherwise.
"""

from collections.abc import Sequence
from typing import NamedTuple

from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadRecipe

SAMPLE_RATE_HZ = 16_000
LEAST_SAMPLES = 256
"""From which on a row of numbers is taken for sound: 16 ms."""
MINIMUM_SCORE, MAXIMUM_IOU = 0.25, 0.5
EVENT_SCORE = 0.5

Operations = tuple[Operation, ...]

_SCORE_NAMES = ("prob", "softmax", "sigmoid", "score")
"""Of outputs that are no logits."""


class _Picture(NamedTuple):
    layout: str
    height: int
    width: int
    channels: int


class _Sound(NamedTuple):
    layout: str
    samples: int


def propose_any_input(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Operations:
    """For a picture, a sound, a text's tokens, or a table, whichever the inputs may be.

    Raises:
        BadRecipe: none of them, or a dimension that must be known is free.
    """
    first = _first_input(inputs)
    if first.dtype.startswith("int"):
        return _propose_tokens(inputs)
    if len(first.shape) == 4:
        return propose_picture(inputs)
    if _read_sound(first) is not None:
        return propose_sound(inputs, outputs)
    return _propose_table(first)


def propose_picture(inputs: Sequence[Tensor]) -> Operations:
    """For one picture. Raises as `propose_any_input` does."""
    first = _first_input(inputs)
    picture = _read_picture(first)
    parameters: dict[str, object] = {
        "input": first.name,
        "colours": "grey" if picture.channels == 1 else "rgb",
        "layout": picture.layout,
        "dtype": first.dtype,
    }
    if first.dtype == "float32":
        parameters["scale"] = 1 / 255
    fit = {"width": picture.width, "height": picture.height, "how": "stretch", "method": "bilinear"}
    return (Operation("image.decode"), Operation("image.fit", fit), Operation("image.feed", parameters))


def propose_sound(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Operations:
    """For a sound, frame by frame; what goes in and comes out in the same shape is taken for a state.

    Raises:
        BadRecipe: no input is a row of samples.
    """
    first = _first_input(inputs)
    sound = _read_sound(first)
    if sound is None:
        raise BadRecipe(
            f"input {first.name} {first.dtype}{list(first.shape)}: expected float32 samples [1, n], [1, n, 1] or "
            "[1, 1, n]; for a spectrogram write audio.log_mel and spectrogram.feed into pre"
        )
    parameters: dict[str, object] = {"input": first.name, "frame_samples": sound.samples, "layout": sound.layout}
    waiting = list(outputs)
    states, constants = [], []
    for other in inputs:
        if other is first:
            continue
        left = next((one for one in waiting if one.dtype == other.dtype and one.shape == other.shape), None)
        if left is not None and -1 not in other.shape:
            waiting.remove(left)
            states.append({"input": other.name, "output": left.name, "shape": list(other.shape)})
        else:
            constants.append(_propose_constant(other))
    if states:
        parameters["states"] = states
    if constants:
        parameters["constants"] = constants
    return (
        Operation("audio.decode_wav", {"sample_rate_hz": SAMPLE_RATE_HZ}),
        Operation("audio.stream", parameters),
    )


def propose_generation(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Operations:
    """For a text that goes on; every byte is a token until a person gives a tokenizer. Raises BadRecipe."""
    ids, mask, _ = _find_tokens(inputs)
    if len(outputs) != 1:
        raise BadRecipe(f"outputs {[one.name for one in outputs]}: expected one, of logits")
    length = ids.shape[-1]
    parameters: dict[str, object] = {"ids": ids.name, "output": outputs[0].name, "max_new_tokens": 32}
    parameters |= {"max_tokens": length if length > 0 else 128, "is_padded": length > 0}
    return (Operation("text.prompt", parameters | ({"mask": mask.name} if mask else {})),)


def propose_scores(outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Operation:
    """For the scores of classes. Raises BadRecipe: no output has as many values as there are labels."""
    for output in outputs:
        sides = [side for side in output.shape if side != 1]
        is_named = len(sides) > 0 and sides[-1] == len(labels) and all(side == -1 for side in sides[:-1])
        if is_named and output.dtype.startswith("float"):
            return Operation("scores.read", {"output": output.name, "activation": _guess_activation(output)})
        if len(labels) == 2 and not [side for side in sides if side != -1] and output.dtype.startswith("float"):
            activation = "none" if _guess_activation(output) == "none" else "sigmoid"
            return Operation("scores.read", {"output": output.name, "activation": activation, "is_binary": True})
    raise BadRecipe(f"{_say(outputs)}: expected floats for {len(labels)} labels, write them into labels")


def propose_boxes(inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Operations:
    """For boxes as YOLO has them in one output, or in two of places and scores.

    Raises:
        BadRecipe: neither.
    """
    picture = _read_picture(_first_input(inputs))
    form, size = _guess_boxes(outputs, labels=labels, picture=picture)
    decode = {"form": form, "input_size": size, "labels": list(labels)}
    merge = {"minimum_score": MINIMUM_SCORE, "maximum_iou": MAXIMUM_IOU}
    return (Operation("boxes.decode", decode), Operation("boxes.merge", merge))


def propose_mask(outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Operations:
    """For an output with a channel for each label, or places of labels. Raises BadRecipe: neither."""
    for output in outputs:
        shape = output.shape
        parameters: dict[str, object] = {"output": output.name, "labels": list(labels)}
        if len(shape) == 4 and len(labels) in (shape[1], shape[3]) and output.dtype.startswith("float"):
            layout = "nchw" if shape[1] == len(labels) else "nhwc"
            return (Operation("mask.read", parameters | {"layout": layout, "chosen_by": "highest"}),)
        if len(shape) == 4 and 1 in (shape[1], shape[3]) and len(labels) == 2 and output.dtype.startswith("float"):
            layout = "nchw" if shape[1] == 1 else "nhwc"
            threshold = 0.5 if _guess_activation(output) == "none" else 0.0
            parameters |= {"layout": layout, "chosen_by": "threshold", "threshold": threshold}
            return (Operation("mask.read", parameters),)
        if len(shape) == 3 and output.dtype.startswith(("int", "uint")):
            return (Operation("mask.read", parameters | {"layout": "nhw", "chosen_by": "index"}),)
    raise BadRecipe(f"{_say(outputs)}: expected a channel for each of {len(labels)} labels, or whole numbers[1, h, w]")


def propose_frames(inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Operations:
    """For scores of labels, frame by frame. Raises BadRecipe: no output has as many columns as there are labels."""
    states = {(one.dtype, one.shape) for one in inputs[1:]}
    for output in outputs:
        if output.shape and output.shape[-1] == len(labels) and (output.dtype, output.shape) not in states:
            activation = "none" if _guess_activation(output) == "none" else "sigmoid"
            return (
                Operation("frames.read", {"output": output.name, "activation": activation}),
                Operation("events.find", {"labels": list(labels), "thresholds": dict.fromkeys(labels, EVENT_SCORE)}),
            )
    raise BadRecipe(f"{_say(outputs)}: expected [..., {len(labels)}] as there are labels")


def propose_embedding(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Operations:
    """For the first output of floats: as it is, or the mean over tokens. Raises BadRecipe: there is none."""
    for output in outputs:
        if output.dtype.startswith("float"):
            has_tokens = len(output.shape) == 3 and output.shape[1] != 1
            pool = "mean" if has_tokens else "none"
            return (Operation("embedding.read", {"output": output.name, "pool": pool, "normalise": "l2"}),)
    raise BadRecipe(f"{_say(outputs)}: expected floats")


def propose_values(outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Operations:
    """For the first output of floats. Raises BadRecipe: there is none."""
    for output in outputs:
        if output.dtype.startswith("float"):
            return (Operation("values.read", {"output": output.name, "names": list(labels)}),)
    raise BadRecipe(f"{_say(outputs)}: expected floats")


def propose_anomaly(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Operations:
    """For an output that is the score, or what an autoencoder gives back. The threshold is a person's to set.

    Raises:
        BadRecipe: no output is of one value or of the input's shape.
    """
    first = _first_input(inputs)
    for output in outputs:
        if output.shape == first.shape:
            return (Operation("anomaly.read", {"output": output.name, "input": first.name, "threshold": 0.5}),)
        if all(side in (1, -1) for side in output.shape) and output.dtype.startswith("float"):
            return (Operation("anomaly.read", {"output": output.name, "threshold": 0.5}),)
    raise BadRecipe(f"{_say(outputs)}: expected one value, or the shape {list(first.shape)} of the input {first.name}")


def _first_input(inputs: Sequence[Tensor]) -> Tensor:
    if not inputs:
        raise BadRecipe("the model has no input; write its signature into source.inputs")
    return inputs[0]


def _read_picture(tensor: Tensor) -> _Picture:
    match tensor.shape:
        case (1 | -1, channels, int() as height, int() as width) if channels in (1, 3):
            picture = _Picture("nchw", height, width, channels)
        case (1 | -1, int() as height, int() as width, channels) if channels in (1, 3):
            picture = _Picture("nhwc", height, width, channels)
        case _:
            raise BadRecipe(f"input {_say([tensor])}: expected one picture, [1, 3, h, w] or [1, h, w, 3]")
    if picture.height < 1 or picture.width < 1 or tensor.dtype not in ("float32", "uint8"):
        raise BadRecipe(
            f"input {_say([tensor])}: expected float32 or uint8 and a known height and width; write them into "
            "source.inputs"
        )
    return picture


def _read_sound(tensor: Tensor) -> _Sound | None:
    match tensor.shape:
        case (1 | -1, int() as samples):
            sound = _Sound("samples", samples)
        case (1 | -1, int() as samples, 1):
            sound = _Sound("samples-channel", samples)
        case (1 | -1, 1, int() as samples):
            sound = _Sound("channel-samples", samples)
        case _:
            return None
    return sound if sound.samples >= LEAST_SAMPLES and tensor.dtype == "float32" else None


def _propose_constant(tensor: Tensor) -> dict[str, object]:
    """Whole numbers beside a sound are mostly its rate."""
    if tensor.dtype not in ("float32", "int32", "int64", "bool"):
        raise BadRecipe(f"input {_say([tensor])}: expected a constant of float32, int32, int64 or bool")
    value = SAMPLE_RATE_HZ if tensor.dtype.startswith("int") else 0
    shape = [1 if side == -1 else side for side in tensor.shape]
    return {"input": tensor.name, "dtype": tensor.dtype, "shape": shape, "value": value}


def _propose_table(tensor: Tensor) -> Operations:
    match tensor.shape:
        case (1 | -1, int() as columns) if columns > 0:
            parameters: dict[str, object] = {"columns": columns, "layout": "row"}
        case (1 | -1, int() as rows, int() as columns) if rows > 0 and columns > 0:
            parameters = {"columns": columns, "rows": rows, "layout": "sequence"}
        case _:
            raise BadRecipe(
                f"input {_say([tensor])}: expected a picture, a sound, a table [1, columns] or [1, rows, columns]; "
                "write free dimensions into source.inputs"
            )
    parameters |= {"input": tensor.name, "dtype": tensor.dtype}
    return (Operation("table.decode_csv", {"has_header": True}), Operation("table.feed", parameters))


def _propose_tokens(inputs: Sequence[Tensor]) -> Operations:
    ids, mask, types = _find_tokens(inputs)
    length = ids.shape[-1]
    parameters: dict[str, object] = {"ids": ids.name, "tokenizer": "{}"}
    parameters |= {"max_tokens": length if length > 0 else 128, "is_padded": length > 0}
    parameters |= ({"mask": mask.name} if mask else {}) | ({"types": types.name} if types else {})
    return (Operation("text.wordpiece", parameters),)


def _find_tokens(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Tokens, mask and types, by their names."""
    if any(len(one.shape) != 2 or one.dtype != "int64" for one in inputs):
        raise BadRecipe(f"{_say(inputs)}: expected int64[1, n] for tokens, and perhaps for mask and types")
    mask = next((one for one in inputs if "mask" in one.name.lower()), None)
    types = next((one for one in inputs if "type" in one.name.lower()), None)
    ids = next((one for one in inputs if one not in (mask, types)), None)
    if ids is None:
        raise BadRecipe(f"{_say(inputs)}: none is of tokens")
    return ids, mask, types


def _guess_activation(output: Tensor) -> str:
    return "none" if any(word in output.name.lower() for word in _SCORE_NAMES) else "softmax"


def _guess_boxes(
    outputs: Sequence[Tensor], *, labels: Sequence[str], picture: _Picture
) -> tuple[dict[str, object], list[int]]:
    """The form of boxes, and what their places are divided by."""
    pixels = [picture.width, picture.height]
    for output in outputs:
        for has_objectness in (False, True):
            values = 4 + has_objectness + len(labels)
            if len(output.shape) == 3 and values in output.shape[1:]:
                layout = "value_rows" if output.shape[1] == values else "box_rows"
                form: dict[str, object] = {"kind": "yolo", "output": output.name, "layout": layout}
                return form | {"has_objectness": has_objectness}, pixels
    places = [one for one in outputs if len(one.shape) == 3 and one.shape[2] == 4]
    scores = [one for one in outputs if len(one.shape) == 3 and one.shape[2] == len(labels) and one not in places]
    if len(places) == 1 and scores:
        activation = "none" if _guess_activation(scores[0]) == "none" else "sigmoid"
        form = {"kind": "corners", "box_output": places[0].name, "score_output": scores[0].name}
        return form | {"order": "xyxy", "activation": activation}, [1, 1]
    raise BadRecipe(
        f"{_say(outputs)}: expected boxes and {len(labels)} labels in one output, [1, 4 + labels, boxes], or in two, "
        "[1, boxes, 4] and [1, boxes, labels]"
    )


def _say(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{one.name} {one.dtype}{list(one.shape)}" for one in tensors)
