"""Which models are damaged, what are they asked, and when is an answer wrong?

An answer is right if it is what the undamaged model says, as near as a golden case's comparison wants it.
"""

import math
import string
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import openvino
from PIL import Image, ImageDraw, ImageFont
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_agent.front.operations.values import Answer, Prepared, Samples, Tensors
from shoal_converters.face_detection import release as faces
from shoal_converters.face_detection.fetch import fetch_material
from shoal_converters.face_detection.photographs import take_photograph
from shoal_converters.note_events import recipes as notes
from shoal_converters.note_events.evaluation import play
from shoal_converters.openvino_ir import convert_onnx
from shoal_converters.wheels import default_cache
from shoal_wire.manifest import Operation

from benchmarks.damage_engine import Item
from benchmarks.real_models import MODELS, load_variant

NOTES_MINIMUM_F1 = 0.9
"""About one note of a window's ten may be missed."""
FACES_MINIMUM_IOU = 0.75
THRESHOLD = 0.5
MARGIN = 0.1
"""Of thresholds. An item that the undamaged model answers otherwise when they are moved by that is left out."""
FRONT: Mapping[str, Any] = {}
FULL_RANGE: Mapping[str, Any] = {
    "grids": [[48, 1]],
    "box_output": "reshaped_regressor_face_4",
    "score_output": "reshaped_classifier_face_4",
}
HZ = 16_000
SPEECH_WINDOW, SPEECH_CONTEXT, SPEECH_STEPS = 512, 64, 10
VOWELS = {
    "a": ((730, 80, 1.0), (1090, 90, 0.5), (2440, 120, 0.2)),
    "i": ((270, 60, 1.0), (2290, 100, 0.4), (3010, 120, 0.3)),
}
"""Frequency, half width and strength of formants (Peterson and Barney, 1952, men's averages)."""


class Task(Protocol):
    """What a model is asked, and how its answers are judged."""

    items: Sequence[Item]
    carry: Mapping[str, str]

    def learn(self, answers: Sequence[Sequence[Tensors]]) -> list[int]:
        """Take the undamaged model's answers to all items for right. Gives the items that it is sure of."""

    def score(self, number: int, outputs: Sequence[Tensors]) -> tuple[bool, float]:
        """Whether the answer to an item is right, and how near it is, from 0 to 1."""


class Subject(NamedTuple):
    """A model in one format, and its task."""

    files: tuple[bytes, ...]
    task: Task


class PipelineTask:
    """Items that a release's pipeline prepares and judges, one inference each."""

    carry: Mapping[str, str] = {}

    def __init__(
        self, pipeline: Pipeline, raw: Sequence[bytes], *, comparison: Operation, neighbours: Sequence[Pipeline]
    ) -> None:
        """`neighbours` have their thresholds moved."""
        self._pipeline = pipeline
        self._neighbours = neighbours
        self._comparison = comparison
        prepared = [pipeline.prepare(one) for one in raw]
        self._contexts = [one.context for one in prepared]
        self.items: Sequence[Item] = [_single_call(one) for one in prepared]
        self._expected: list[Answer] = []

    def learn(self, answers: Sequence[Sequence[Tensors]]) -> list[int]:
        """See `Task`."""
        self._expected = [
            self._pipeline.finish(outputs, context) for outputs, context in zip(answers, self._contexts, strict=True)
        ]
        return [number for number, outputs in enumerate(answers) if self._is_sure(number, outputs)]

    def score(self, number: int, outputs: Sequence[Tensors]) -> tuple[bool, float]:
        """See `Task`."""
        return self._judge(number, outputs, pipeline=self._pipeline)

    def _is_sure(self, number: int, outputs: Sequence[Tensors]) -> bool:
        pipelines = (self._pipeline, *self._neighbours)
        return all(self._judge(number, outputs, pipeline=pipeline)[0] for pipeline in pipelines)

    def _judge(self, number: int, outputs: Sequence[Tensors], *, pipeline: Pipeline) -> tuple[bool, float]:
        try:
            answer = pipeline.finish(outputs, self._contexts[number])
            verdict = compare(self._comparison, answer=answer, expected=self._expected[number])
        except (BadOutput, BadPipeline):  # the second where nothing at all was heard when it was learnt
            return False, 0.0
        return verdict.passed, verdict.score


class ProbabilityTask:
    """Items whose answer is whether a probability reaches the threshold: the highest of an item's inferences."""

    def __init__(self, items: Sequence[Item], *, output: str, column: int, carry: Mapping[str, str]) -> None:
        self.items = items
        self.carry = carry
        self._output = output
        self._column = column
        self._expected: list[float] = []

    def learn(self, answers: Sequence[Sequence[Tensors]]) -> list[int]:
        """See `Task`."""
        self._expected = [self._probability(outputs) for outputs in answers]
        return [number for number, expected in enumerate(self._expected) if abs(expected - THRESHOLD) > MARGIN]

    def score(self, number: int, outputs: Sequence[Tensors]) -> tuple[bool, float]:
        """See `Task`."""
        found, expected = self._probability(outputs), self._expected[number]
        if not math.isfinite(found):
            return False, 0.0
        return (found >= THRESHOLD) == (expected >= THRESHOLD), max(0.0, 1 - abs(found - expected))

    def _probability(self, outputs: Sequence[Tensors]) -> float:
        values = [step[self._output].ravel() if self._output in step else np.array([]) for step in outputs]
        if any(value.size <= self._column for value in values):
            return math.nan
        return float(np.max([value[self._column] for value in values]))


Convert = Callable[[bytes], tuple[bytes, ...]]
"""Makes the files of another format."""


def _load(name: str, variant: str) -> bytes:
    return load_variant(MODELS[name], variant, cache=default_cache())


def _as_it_is(model: bytes) -> tuple[bytes, ...]:
    return (model,)


def _convert_tflite(model: bytes) -> tuple[bytes, bytes]:
    """As OpenVINO's converter writes it: the description, then the weights."""
    with tempfile.TemporaryDirectory() as folder:
        source, xml = Path(folder) / "model.tflite", Path(folder) / "model.xml"
        source.write_bytes(model)
        openvino.save_model(openvino.Core().read_model(str(source)), str(xml), compress_to_fp16=False)
        return xml.read_bytes(), xml.with_suffix(".bin").read_bytes()


def _single_call(prepared: Prepared[Any]) -> Item:
    if len(prepared.calls) != 1:
        raise ValueError(f"an item must be one inference, found {len(prepared.calls)}")
    return list(prepared.calls)


def _note_task(count: int) -> PipelineTask:
    """Synthesised sounds, cut to one window of the network."""
    recipe = notes.BETTER
    frames = notes.FRAMES - recipe.overlap_frames
    samples = frames * notes.FRAME_SAMPLES
    sounds = (play(seed).wav for seed in range(20_000, 20_000 + count))
    raw = [_cut_wav(wav, samples=samples) for wav in sounds]
    thresholds = (recipe.onset_threshold - MARGIN, recipe.onset_threshold + MARGIN)
    neighbours = [replace(recipe, onset_threshold=threshold).pipeline for threshold in thresholds]
    return PipelineTask(recipe.pipeline, raw, comparison=notes.compare_notes(NOTES_MINIMUM_F1), neighbours=neighbours)


def _cut_wav(wav: bytes, *, samples: int) -> bytes:
    """The beginning of a 16-bit WAV file with a header of 44 bytes."""
    sound = wav[44 : 44 + 2 * samples]
    header = bytearray(wav[:44])
    header[4:8] = (36 + len(sound)).to_bytes(4, "little")
    header[40:44] = len(sound).to_bytes(4, "little")
    return bytes(header) + sound


def _face_task(count: int, *, side: int = faces.SIDE, changes: Mapping[str, Any] = FRONT) -> PipelineTask:
    """Photographs, every other one with a face. `changes` of what decodes the outputs of the example's network."""
    before = [
        Operation("image.decode"),
        Operation("image.letterbox", {"input": faces.INPUT, "width": side, "height": side, "low": -1.0, "high": 1.0}),
    ]
    decode, merge = faces.operations_after(faces.MINIMUM_SCORE)
    changed = {**decode.parameters, "input_pixels": side, **changes}
    pipeline, *neighbours = (
        Pipeline(pre=before, post=[Operation(decode.name, {**changed, "minimum_score": score}), merge])
        for score in (faces.MINIMUM_SCORE, faces.MINIMUM_SCORE - MARGIN, faces.MINIMUM_SCORE + MARGIN)
    )
    material = fetch_material(default_cache())
    raw = [take_photograph(material, seed=seed).content for seed in range(20_000, 20_000 + count)]
    comparison = Operation("faces.iou", {"minimum_iou": FACES_MINIMUM_IOU})
    return PipelineTask(pipeline, raw, comparison=comparison, neighbours=neighbours)


def _text_task(count: int) -> ProbabilityTask:
    """Lines of printed letters, every other one upside down."""
    generator = np.random.default_rng(20_000)
    items = [[{"x": _print_line(generator, is_upside_down=number % 2 == 1)}] for number in range(count)]
    return ProbabilityTask(items, output="save_infer_model/scale_0.tmp_1", column=1, carry={})


def _print_line(generator: np.random.Generator, *, is_upside_down: bool) -> Samples:
    letters = list(string.ascii_letters + string.digits + " ")
    words = "".join(generator.choice(letters, int(generator.integers(4, 10))))
    image = Image.new("RGB", (192, 48), (int(generator.integers(180, 255)),) * 3)
    place = (int(generator.integers(2, 20)), int(generator.integers(0, 8)))
    font = ImageFont.load_default(size=float(generator.integers(22, 38)))
    ImageDraw.Draw(image).text(place, words, font=font, fill=(int(generator.integers(0, 90)),) * 3)
    if is_upside_down:
        image = image.rotate(180)
    pixels = np.asarray(image, np.float32) / 127.5 - 1 + generator.normal(0, 0.02, (48, 192, 3))
    line: Samples = np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis], np.float32)
    return line


def _speech_task(count: int) -> ProbabilityTask:
    """Vowels that begin and swell, and noise."""
    generator = np.random.default_rng(20_000)
    samples = SPEECH_STEPS * SPEECH_WINDOW
    makers = (sing, _hiss)
    items = []
    for number in range(count):
        sound = makers[number % 2](generator, samples)
        padded = np.concatenate([np.zeros(SPEECH_CONTEXT, np.float32), sound])
        starts = range(0, samples, SPEECH_WINDOW)
        windows = (padded[start : start + SPEECH_CONTEXT + SPEECH_WINDOW] for start in starts)
        items.append([{"input": window[np.newaxis], "sr": np.array(HZ, np.int64)} for window in windows])
        items[-1][0]["state"] = np.zeros((2, 1, 128), np.float32)
    return ProbabilityTask(items, output="output", column=0, carry={"stateN": "state"})


def sing(generator: np.random.Generator, samples: int) -> Samples:
    """A vowel that begins, swells, and ends with the last sample."""
    pitch_hz, vowel = generator.uniform(150, 240), VOWELS[("a", "i")[int(generator.random() < 0.8)]]
    time_s = np.arange(samples) / HZ
    phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.03 * np.sin(2 * np.pi * 5 * time_s))) / HZ
    sound = np.zeros(samples)
    for harmonic in islice(range(1, 40), int(4000 / pitch_hz)):
        strength = sum(gain / (1 + ((harmonic * pitch_hz - centre) / width) ** 2) for centre, width, gain in vowel)
        sound += strength * np.sin(harmonic * phase)
    sound *= np.minimum(1, time_s / 0.05) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time_s) ** 2)
    scaled: Samples = (0.3 * sound / np.abs(sound).max()).astype(np.float32)
    return scaled


def _hiss(generator: np.random.Generator, samples: int) -> Samples:
    return generator.normal(0, generator.uniform(0.01, 0.15), samples).astype(np.float32)


def _notes(variant: str, count: int, *, convert: Convert = _as_it_is) -> Subject:
    return Subject(convert(_load("note-events", variant)), _note_task(count))


def _front(count: int, *, convert: Convert = _as_it_is) -> Subject:
    return Subject(convert(_load("blazeface-front", "tflite-fp32")), _face_task(count))


def _full(count: int) -> Subject:
    return Subject((_load("blazeface-full", "tflite-fp32"),), _face_task(count, side=192, changes=FULL_RANGE))


def _text(count: int, *, convert: Convert = _as_it_is) -> Subject:
    return Subject(convert(_load("text-classifier", "onnx-fp32")), _text_task(count))


def _speech(count: int) -> Subject:
    return Subject((_load("silero-vad", "onnx-fp32"),), _speech_task(count))


SUBJECTS: Mapping[str, Callable[[int], Subject]] = {
    "silero-vad/onnx/onnxruntime": _speech,
    "text-classifier/onnx/onnxruntime": _text,
    "blazeface-front/tflite/litert": _front,
    "blazeface-full/tflite/litert": _full,
    "blazeface-front/tflite/tflite-runtime": _front,
    "blazeface-front/openvino/openvino": partial(_front, convert=_convert_tflite),
    "text-classifier/openvino/openvino": partial(_text, convert=convert_onnx),
    "note-events/onnx/onnxruntime": partial(_notes, "onnx-fp32"),
    "note-events/tflite/litert": partial(_notes, "tflite-fp32"),
    "note-events/openvino/openvino": partial(_notes, "onnx-fp32", convert=convert_onnx),
}
"""By model, format and engine; each gets the number of items to make. The slowest come last."""
