"""What is in a model folder of Hugging Face: which file, labels and pre-processing?

Formats: huggingface.co/docs/transformers, "Configuration" and "Image processor"; huggingface.co/docs/hub, "Model
cards".
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shoal_wire.manifest import Operation, Tensor

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.importing.drafting import Known
from shoal_converters.importing.found import Found, list_licences, read_bounded, read_json
from shoal_converters.importing.yaml_file import parse_yaml

TASKS: Mapping[str, str] = {
    "ForImageClassification": "classification",
    "ForAudioClassification": "classification",
    "ForSequenceClassification": "classification",
    "ForObjectDetection": "detection",
    "ForSemanticSegmentation": "segmentation",
    "ForUniversalSegmentation": "segmentation",
    "ForAudioFrameClassification": "events",
    "ForCausalLM": "text",
    "LMHeadModel": "text",
}
"""By the end of the class's name in config.json."""
EMBEDDING_FILE = "modules.json"  # of sentence-transformers
METHODS: Mapping[int, str] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}
"""Pillow's numbers of filters."""
PREFERRED = ("onnx/model.onnx", "model.onnx", "onnx/decoder_model_merged.onnx")
CODE_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json")
KEPT = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "config.json", "README.md")
MAX_SIDE = 4096
WHOLE_FROM = 384
"""Pixels from which ConvNeXt's pre-processing scales the whole picture and crops nothing."""


def is_huggingface(folder: Path) -> bool:
    """Whether config.json says what kind of model it is."""
    try:
        config = read_json(folder / "config.json")
    except BadModel:
        return False
    return isinstance(config, dict) and ("model_type" in config or "architectures" in config)


def read_huggingface(folder: Path) -> Found:
    """Find an ONNX or TFLite file, and what config.json, preprocessor_config.json and the model card say.

    Raises:
        BadModel: broken, or neither a model nor weights inside.
    """
    config = read_json(folder / "config.json")
    assert isinstance(config, dict)
    card = _read_card(folder)
    model, notes = _find_model(folder, config)
    labels, told = _read_labels(config)
    name = str(config.get("_name_or_path") or folder.resolve().name)
    revision = f", transformers {config['transformers_version']}" if config.get("transformers_version") else ""
    return Found(
        kind="Hugging Face folder",
        name=name.rstrip("/").rpartition("/")[2] or folder.resolve().name,
        model=model,
        files=(*list_licences(folder), *(folder / file for file in KEPT if (folder / file).is_file())),
        task=_find_task(folder, config),
        known=Known(licence=str(card.get("license") or ""), labels=labels, make_pre=_find_pre(folder)),
        origin=f"Hugging Face folder {name}{revision}",
        notes=(*notes, *told),
    )


def make_picture_operations(about: Mapping[str, Any], tensor: Tensor) -> tuple[Tensor, tuple[Operation, ...]]:
    """Operations that do what preprocessor_config.json describes, for the input `tensor`, whose free height and width
    become those that it describes.

    Raises:
        BadRecipe: something in it that they can't do, or an input that holds no picture.
    """
    edge, crop = _find_sizes(about)
    layout, (height_axis, width_axis) = _find_layout(tensor)
    shape = list(tensor.shape)
    for axis, described in zip((height_axis, width_axis), crop, strict=True):
        shape[axis] = described if shape[axis] < 0 else shape[axis]
    width, height = shape[width_axis], shape[height_axis]
    if min(width, height) < 1:
        raise BadRecipe("preprocessor_config.json names no size, and the model's height and width are free")
    fit: dict[str, object] = {"width": width, "height": height, "how": "stretch", "method": _find_method(about)}
    if about.get("do_resize", True) and edge:
        # The shorter side is scaled to `edge`, and the middle kept: the picture keeps its proportions.
        kept = min(width, height) / edge
        fit |= {"how": "crop", "zoom": kept} if kept < 1 else {"how": "crop"}
    feed: dict[str, object] = {
        "input": tensor.name,
        "colours": "bgr" if about.get("do_flip_channel_order") else "rgb",
        "layout": layout,
        "dtype": tensor.dtype,
    }
    if tensor.dtype == "float32":
        if about.get("do_rescale", True):
            feed["scale"] = _numbers(about.get("rescale_factor", 1 / 255), what="rescale_factor")[0]
        if about.get("do_normalize", True) and "image_mean" in about:
            feed |= {key: _numbers(about.get(f"image_{key}"), what=f"image_{key}") for key in ("mean", "std")}
    operations = (Operation("image.decode"), Operation("image.fit", fit), Operation("image.feed", feed))
    return Tensor(tensor.name, tensor.dtype, tuple(shape)), operations


def _find_pre(folder: Path) -> Callable[[Tensor], tuple[Tensor, tuple[Operation, ...]]] | None:
    file = folder / "preprocessor_config.json"
    if not file.is_file():
        return None
    about = read_json(file)
    if not isinstance(about, dict):
        raise BadModel(f"{file}: expected an object, found {type(about).__name__}")
    return lambda tensor: make_picture_operations(about, tensor)


def _find_layout(tensor: Tensor) -> tuple[str, tuple[int, int]]:
    """Layout, and the axes of height and width."""
    shape = tensor.shape
    if len(shape) == 4 and shape[1] == 3:
        return "nchw", (2, 3)
    if len(shape) == 4 and shape[3] == 3:
        return "nhwc", (1, 2)
    raise BadRecipe(f"input {tensor.name!r} {list(shape)}: expected a picture of three colours")


def _find_sizes(about: Mapping[str, Any]) -> tuple[float, tuple[int, int]]:
    """The shorter side that a picture is scaled to, 0 where the whole is stretched; and height and width of the input,
    -1 where nothing says."""
    size, crop, share = about.get("size"), about.get("crop_size"), about.get("crop_pct")
    if isinstance(size, dict) and "longest_edge" in size:
        raise BadRecipe("preprocessor_config.json keeps each picture's own size (longest_edge), image.fit needs one")
    try:
        if about.get("do_center_crop") and crop is not None:
            return (_side(size, "shortest_edge") if _is_edge(size) else 0.0), (
                _side(crop, "height"),
                _side(crop, "width"),
            )
        if _is_edge(size):
            edge = _side(size, "shortest_edge")
            if share is None:
                return float(edge), (edge, edge)
            return (0.0 if edge >= WHOLE_FROM else edge / float(share)), (edge, edge)
        return 0.0, (-1, -1) if size is None else (_side(size, "height"), _side(size, "width"))
    except (TypeError, KeyError, ValueError, ZeroDivisionError) as error:
        raise BadRecipe(f"preprocessor_config.json: size or crop can't be read ({error})") from None


def _is_edge(size: object) -> bool:
    return isinstance(size, dict) and "shortest_edge" in size


def _side(size: Any, key: str) -> int:
    """A side in pixels; a number alone is all sides."""
    side = int(size[key] if isinstance(size, dict) else size)
    if not 1 <= side <= MAX_SIDE:
        raise ValueError(f"{key} {side}")
    return side


def _find_method(about: Mapping[str, Any]) -> str:
    number = about.get("resample", 2)
    if number not in METHODS:
        raise BadRecipe(f"preprocessor_config.json: resample {number!r}, image.fit has {', '.join(METHODS.values())}")
    return METHODS[number]


def _numbers(values: Any, *, what: str) -> list[float]:
    values = values if isinstance(values, list) else [values]
    if not values or not all(isinstance(value, int | float) for value in values):
        raise BadRecipe(f"preprocessor_config.json: {what} {values!r}, expected numbers")
    return [float(value) for value in values]


def _find_model(folder: Path, config: Mapping[str, Any]) -> tuple[Path | None, list[str]]:
    found = sorted({*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx"), *folder.glob("*.tflite")})
    if found:
        preferred = [folder / name for name in PREFERRED if (folder / name) in found]
        chosen = (preferred or found)[0]
        others = ", ".join(str(path.relative_to(folder)) for path in found if path != chosen)
        return chosen, [f"other models in the folder aren't taken: {others}"] if others else []
    weights = [name for name in CODE_WEIGHTS if (folder / name).is_file()]
    if not weights:
        raise BadModel(f"{folder}: neither a model (.onnx, .tflite) nor weights ({', '.join(CODE_WEIGHTS)}) inside")
    kind = (config.get("architectures") or [config.get("model_type", "a model")])[0]
    return None, [
        f"{weights[0]} holds weights of {kind}, not its program: export it to ONNX, or write a module whose function "
        "loads it with transformers and gives the torch.nn.Module"
    ]


def _read_labels(config: Mapping[str, Any]) -> tuple[tuple[str, ...], list[str]]:
    named = config.get("id2label")
    if not isinstance(named, dict) or not named:
        return (), []
    try:
        by_number = {int(number): str(label) for number, label in named.items()}
    except ValueError:
        raise BadModel("config.json: id2label has a key that is no number") from None
    if sorted(by_number) != list(range(len(by_number))):
        return (), ["config.json: id2label has gaps: write labels yourself, in the order of the outputs"]
    labels = tuple(by_number[number] for number in range(len(by_number)))
    is_placeholder = all(label == f"LABEL_{number}" for number, label in enumerate(labels))
    return labels, ["labels are placeholders (LABEL_0, …): write their names"] if is_placeholder else []


def _find_task(folder: Path, config: Mapping[str, Any]) -> str:
    if (folder / EMBEDDING_FILE).is_file():
        return "embedding"
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    return next((task for ending, task in TASKS.items() if name.endswith(ending)), "")


def _read_card(folder: Path) -> dict[str, object]:
    """The mapping at the beginning of README.md; empty where there is none."""
    file = folder / "README.md"
    if not file.is_file():
        return {}
    text = read_bounded(file, limit_bytes=4 << 20).decode(errors="replace")
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        return {}
    try:
        return parse_yaml(text[4:].partition("\n---")[0].encode(), what=str(file))
    except BadModel:
        return {}  # a card is for people: a broken one stops nothing
