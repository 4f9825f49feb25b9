"""Does what a Hugging Face folder says of pictures and labels become the agent's operations and a recipe's labels?"""

import json
from pathlib import Path
from typing import Any

import pytest
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.importing.huggingface_folder import is_huggingface, make_picture_operations, read_huggingface
from shoal_wire.manifest import Operation, Tensor

FREE = Tensor("pixel_values", "float32", (-1, 3, -1, -1))
FIXED = Tensor("pixel_values", "float32", (1, 3, 224, 224))
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def fit_of(about: dict[str, Any], tensor: Tensor = FREE) -> dict[str, Any]:
    """Of `image.fit`. That the agent takes the operations is checked on the way."""
    _, pre = make_picture_operations(about, tensor)
    post = (
        Operation("scores.read", {"output": "y", "activation": "softmax"}),
        Operation("classes.top", {"labels": ["a"]}),
    )
    Pipeline(pre=pre, post=post)
    return pre[1].parameters


def test_a_plain_size_stretches_the_picture() -> None:
    fit = fit_of({"size": {"height": 224, "width": 192}, "resample": 2})
    assert fit == {"width": 192, "height": 224, "how": "stretch", "method": "bilinear"}


def test_a_shortest_edge_with_a_crop_keeps_the_proportions() -> None:
    about = {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}}
    assert fit_of(about | {"resample": 3}) == {
        "width": 224,
        "height": 224,
        "how": "crop",
        "method": "bicubic",
        "zoom": 0.875,
    }


@pytest.mark.parametrize(("edge", "how", "zoom"), [(224, "crop", 0.875), (384, "stretch", None)])
def test_a_share_of_the_crop_is_a_zoom_below_384_pixels(edge: int, how: str, zoom: float | None) -> None:
    fit = fit_of({"size": {"shortest_edge": edge}, "crop_pct": 0.875})
    assert (fit["how"], fit.get("zoom"), fit["width"]) == (how, zoom, edge)


def test_rescaling_and_normalizing_become_numbers_of_the_feed() -> None:
    about = {
        "size": 224,
        "rescale_factor": 0.0078125,
        "image_mean": MEAN,
        "image_std": STD,
        "do_flip_channel_order": True,
    }
    tensor, pre = make_picture_operations(about, FREE)
    assert pre[2].parameters == {
        "input": "pixel_values",
        "colours": "bgr",
        "layout": "nchw",
        "dtype": "float32",
        "scale": 0.0078125,
        "mean": MEAN,
        "std": STD,
    }
    assert tensor.shape == (-1, 3, 224, 224)


def test_what_the_model_fixes_goes_before_what_is_described() -> None:
    tensor, pre = make_picture_operations({"size": {"height": 300, "width": 300}}, FIXED)
    assert (tensor.shape, pre[1].parameters["width"]) == ((1, 3, 224, 224), 224)


@pytest.mark.parametrize(
    ("about", "tensor", "reason"),
    [
        ({"size": {"shortest_edge": 800, "longest_edge": 1333}}, FREE, "longest_edge"),
        ({"size": 224, "resample": 5}, FREE, "resample 5"),
        ({"size": 224, "image_mean": ["a"]}, FREE, "expected numbers"),
        ({}, FREE, "names no size"),
        ({"size": {"height": 10**9, "width": 1}}, FREE, "can't be read"),
        ({"size": 224}, Tensor("input_ids", "int64", (1, 8)), "a picture of three colours"),
    ],
)
def test_says_what_it_cannot_follow(about: dict[str, Any], tensor: Tensor, reason: str) -> None:
    with pytest.raises(BadRecipe, match=reason):
        make_picture_operations(about, tensor)


def folder_of(path: Path, *, files: tuple[str, ...] = ("onnx/model.onnx",), card: str = "", **config: Any) -> Path:
    (path / "onnx").mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "resnet"} | config))
    for name in files:
        (path / name).write_bytes(b"")
    if card:
        (path / "README.md").write_text(card)
    return path


def test_takes_labels_in_the_order_of_their_numbers_and_the_licence_of_the_card(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        architectures=["ResNetForImageClassification"],
        id2label={"10": "k", **{str(number): chr(97 + number) for number in range(10)}},
        card="---\nlicense: mit\n---\nA net.",
    )
    assert is_huggingface(folder)
    found = read_huggingface(folder)
    assert found.known.labels == tuple("abcdefghijk")
    assert (found.known.licence, found.task, found.model) == ("mit", "classification", folder / "onnx/model.onnx")


def test_says_that_labels_are_placeholders_or_have_gaps(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, id2label={"0": "LABEL_0", "1": "LABEL_1"})
    assert "placeholders" in read_huggingface(folder).notes[0]
    (folder / "config.json").write_text('{"model_type": "x", "id2label": {"0": "a", "2": "c"}}')
    assert read_huggingface(folder).known.labels == ()


def test_weights_alone_need_code(tmp_path: Path) -> None:
    found = read_huggingface(folder_of(tmp_path, files=("model.safetensors",), architectures=["ViTModel"]))
    assert found.model is None
    assert "holds weights of ViTModel, not its program" in found.notes[0]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match="neither a model"):
        read_huggingface(folder_of(tmp_path, files=()))


@pytest.mark.parametrize("card", ["---\na: &x [1]\nb: *x\n---\n", "---\n: : :\n---\n", "---\n- 1\n---\n"])
def test_a_broken_or_hostile_card_stops_nothing(tmp_path: Path, card: str) -> None:
    assert read_huggingface(folder_of(tmp_path, card=card)).known.licence == ""
