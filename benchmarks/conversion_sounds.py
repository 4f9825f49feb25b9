"""Which real models of sounds does the benchmark of conversions build, and which labelled sounds judge them?

- Notes: sounds synthesised from known scores, for one network in three of the formats that its makers give.
- Speech: vowels that begin and end at known times, in noise. No network was trained on such, so what the original
  hears of them is what others are compared with, not how good it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from shoal_agent.front.operations.values import Samples
from shoal_converters.datasets.arrays import encode_wav
from shoal_converters.note_events import recipes as notes
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE
from shoal_converters.recipe import Recipe, Source
from shoal_wire.manifest import Operation

from benchmarks.conversion_subject import Subject, copy_from_wheel, make_recipe, save_sound
from benchmarks.damage_subjects import HZ, SPEECH_CONTEXT, SPEECH_WINDOW, sing
from benchmarks.real_models import MODELS

NOTE_SEEDS = range(5_000, 5_060)
NOTE_CALIBRATION_SEEDS = range(6_000, 6_020)
"""The thresholds were chosen on seeds 1,000 to 1,039, which are in neither."""
SAVED_MODEL = "nmp"
SAVED_MODEL_FILES = {
    "saved_model.pb": "eaa25c91c431c91100c416a2c018663f4c635f28fa19529c4ff5e14c18aa29c9",
    "variables/variables.data-00000-of-00001": "f5d12cd7245fecea0c956c963751f3519c263615ea954b5948d5e8c9c3376f9b",
    "variables/variables.index": "356aa1a00095cf2dba17386144e8b289cb04195ae090aa7f324312b08220115e",
}
SAVED_MODEL_NAMES = {
    notes.INPUT: "input_2",
    notes.CONTOUR_OUTPUT: "contour",
    notes.FRAME_OUTPUT: "note",
    notes.ONSET_OUTPUT: "onset",
}
"""What its function calls the tensors that have other names in the two files."""
SPEECH_SOUNDS, SPEECH_CALIBRATION = 100, 20
SPEECH_S = 3.0


def _prepare_notes(path: str, variants: Sequence[str], folder: Path) -> Recipe:
    NOTE_SOURCES[path](folder / path)
    for name, seeds in (("evaluation", NOTE_SEEDS), ("calibration", NOTE_CALIBRATION_SEEDS)):
        for seed in seeds:
            sound = play(seed)
            save_sound(folder / name, f"{seed}", sound.wav, sound.expected["notes"])
    names = SAVED_MODEL_NAMES if path == SAVED_MODEL else {}
    return make_recipe(
        name="note-events",
        source=Source(path=path),
        licence="Apache-2.0",
        task="notes",
        pre=_rename(notes.BETTER.pre, names),
        post=_rename(notes.BETTER.post, names),
        calibration="calibration",
        evaluation="evaluation",
        variants=variants,
    )


def _rename(operations: Sequence[Operation], names: Mapping[str, str]) -> tuple[Operation, ...]:
    """The same with other names of tensors, which are among the parameters."""
    return tuple(
        Operation(one.name, {key: names.get(str(value), value) for key, value in one.parameters.items()})
        for one in operations
    )


def _copy_saved_model(to: Path) -> None:
    for name, sha256 in SAVED_MODEL_FILES.items():
        member = f"basic_pitch/saved_models/icassp_2022/nmp/{name}"
        copy_from_wheel(replace(NOTE_EVENTS, member=member, member_sha256=sha256), to / name)


NOTE_SOURCES: Mapping[str, Callable[[Path], object]] = {
    "nmp.onnx": partial(copy_from_wheel, NOTE_EVENTS),
    "nmp.tflite": partial(copy_from_wheel, NOTE_EVENTS_TFLITE),
    SAVED_MODEL: _copy_saved_model,
}
"""How each gets to its place, by the name that it has there."""


def _prepare_speech(folder: Path) -> Recipe:
    file = copy_from_wheel(MODELS["silero-vad"].variants["onnx-fp32"].source, folder / "silero_vad.onnx")
    lot = np.random.default_rng(6)
    for name, count in (("evaluation", SPEECH_SOUNDS), ("calibration", SPEECH_CALIBRATION)):
        for number in range(count):
            samples, spans = _speak(lot)
            rows = [{"label": "speech", "start_s": round(start, 3), "end_s": round(end, 3)} for start, end in spans]
            save_sound(folder / name, f"{number:03d}", encode_wav(samples, sample_rate_hz=HZ), rows)
    stream = {
        "input": "input",
        "frame_samples": SPEECH_WINDOW,
        "context_samples": SPEECH_CONTEXT,
        "states": [{"input": "state", "output": "stateN", "shape": [2, 1, 128]}],
        "constants": [{"input": "sr", "dtype": "int64", "value": HZ}],
    }
    find = {"labels": ["speech"], "thresholds": {"speech": 0.5}, "gap_s": 0.1, "minimum_s": 0.1}
    return make_recipe(
        name="speech",
        source=Source(path=file.name),
        licence="MIT",
        task="events",
        labels=("speech",),
        pre=(Operation("audio.decode_wav", {"sample_rate_hz": HZ}), Operation("audio.stream", stream)),
        post=(Operation("frames.read", {"output": "output"}), Operation("events.find", find)),
        calibration="calibration",
        evaluation="evaluation",
    )


def _speak(lot: np.random.Generator) -> tuple[Samples, list[tuple[float, float]]]:
    """One or two vowels in noise, and from when to when, in seconds."""
    samples = lot.normal(0, lot.uniform(0.001, 0.01), round(SPEECH_S * HZ))
    spans = []
    for begins in (0.3, 1.7)[: int(lot.integers(1, 3))]:
        start = begins + float(lot.uniform(0, 0.3))
        vowel = sing(lot, round(float(lot.uniform(0.5, 1.0)) * HZ))
        first = round(start * HZ)
        samples[first : first + vowel.size] += vowel * lot.uniform(0.5, 1.5)
        spans.append((start, start + vowel.size / HZ))
    loud: Samples = np.clip(samples, -1, 1).astype(np.float32)
    return loud, spans


SOUNDS: Mapping[str, Subject] = {
    "note-events": Subject(partial(_prepare_notes, "nmp.onnx", ())),
    "note-events-tflite": Subject(
        partial(_prepare_notes, "nmp.tflite", ("tflite-fp32", "tflite-fp16", "tflite-int8", "openvino-fp32"))
    ),
    "note-events-savedmodel": Subject(
        partial(_prepare_notes, SAVED_MODEL, ("onnx-fp32", "tflite-fp32", "openvino-fp32")), needs_frameworks=True
    ),
    "speech": Subject(_prepare_speech),
}
