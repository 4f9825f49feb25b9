"""Do the forms that are made of one network agree with those that its makers give?

basic-pitch comes as ONNX, as TensorFlow Lite, as a SavedModel and for Core ML. What is made of one of them in full
precision is run beside the first two, on windows of sounds. Core ML programs, the makers' own among them, are
interpreted in PyTorch, and compared with the makers' ONNX file: theirs in float32, ours in float16.
"""

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import structs
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.values import Tensors
from shoal_converters.comparing.comparison import compare_sides
from shoal_converters.comparing.differences import Difference, Meter
from shoal_converters.comparing.sides import Side, find_sides
from shoal_converters.inspection.inspecting import load_draft
from shoal_converters.inspection.running import DEADLINE_S, open_worker
from shoal_converters.note_events import recipes as notes
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE
from shoal_converters.paths import COREML_RUN
from shoal_converters.paths.messages import Request
from shoal_converters.paths.process import run_path
from shoal_converters.wheels import default_cache, fetch_file, fetch_files
from shoal_wire.manifest import Binding, Model, Tensor

from benchmarks.conversion_rows import Twin
from benchmarks.conversion_sounds import SAVED_MODEL_NAMES
from benchmarks.conversion_subject import FRAMEWORKS, copy_from_wheel

SEEDS = range(7_000, 7_004)
COREML, COREML_FORM = "nmp.mlpackage", "coreml-fp16"
MLPACKAGE = {
    "Manifest.json": "c1fa5ef8acc34703edcd4e90e9a8640bd4673d9f3a68753c3b9d1ca0365e2928",
    "Data/com.apple.CoreML/model.mlmodel": "af7bf7d49bc167e0bf0c30aa2ca6b432c3e10df048d2dd4173ff3a738c020858",
    "Data/com.apple.CoreML/weights/weight.bin": "691a6b63c7ddcdde0ee131ff3986dcb1250df47cd738612efde966ba9b4c99cd",
}
NAMES = {
    notes.INPUT: "input_2",
    notes.CONTOUR_OUTPUT: "Identity",
    notes.FRAME_OUTPUT: "Identity_1",
    notes.ONSET_OUTPUT: "Identity_2",
}
"""What the makers' Core ML program calls them."""
SHAPES = {
    notes.INPUT: (1, notes.WINDOW_SAMPLES, 1),
    notes.CONTOUR_OUTPUT: (1, notes.FRAMES, 3 * notes.PITCHES),
    notes.FRAME_OUTPUT: (1, notes.FRAMES, notes.PITCHES),
    notes.ONSET_OUTPUT: (1, notes.FRAMES, notes.PITCHES),
}
TIMEOUT_S = 600.0


class _Package(NamedTuple):
    """A Core ML program in one file."""

    name: str
    content: bytes
    bindings: Bindings


def compare_with_twins(release: Path, *, folder: Path) -> tuple[Twin, ...]:
    """Forms of a release of the network beside those of its makers; writes into `folder`.

    Raises:
        BadModel: their signatures don't fit, or an engine refuses one.
        ConverterError: a Core ML program can't be interpreted.
    """
    calls = [call for seed in SEEDS for call in notes.BETTER.pipeline.prepare(play(seed).wav).calls]
    data = folder / "windows.npz"
    _save(data, calls)
    twins = []
    for shipped in fetch_files([NOTE_EVENTS, NOTE_EVENTS_TFLITE], cache=default_cache()):
        (first,) = find_sides(str(shipped))
        for second in find_sides(str(release)):
            if second.variant.endswith("-fp32"):
                found = compare_sides(
                    first, _call_alike(second), data=data, count=0, free_length=1, compares_layers=False
                )
                form = second.variant.rpartition("/")[2]
                twins += [_twin(form, shipped.name, one.name, one.difference) for one in found.outputs]
    return (*twins, *(_compare_coreml(release, calls, folder=folder) if FRAMEWORKS.exists() else ()))


def _call_alike(side: Side) -> Side:
    """A side whose tensors are called as the SavedModel does, with the names that they have in the makers' files."""
    mine = {its: mine for mine, its in SAVED_MODEL_NAMES.items()}
    assert side.signature is not None
    ends = [[one for one in tensors if one.name in mine] for tensors in side.signature]
    if not ends[0]:
        return side
    bound = {binding.tensor: binding for binding in side.bindings}
    bindings = [
        structs.replace(bound.get(one.name, Binding(one.name, one.name, one.dtype, one.shape)), tensor=mine[one.name])
        for tensors in ends
        for one in tensors
    ]
    inputs, outputs = (tuple(structs.replace(one, name=mine[one.name]) for one in tensors) for tensors in ends)
    return replace(side, signature=(inputs, outputs), bindings=tuple(bindings))


def _compare_coreml(release: Path, calls: Sequence[Tensors], *, folder: Path) -> list[Twin]:
    """Both Core ML programs beside the makers' ONNX file; none where the release has no such form."""
    (model,) = load_draft(release).models
    own = next((variant for variant in model.variants if variant.name == COREML_FORM), None)
    if own is None:
        return []
    expected = _run_onnx(calls)
    ours = _Package(
        COREML_FORM,
        (release / own.files[0]).read_bytes(),
        Bindings(own.bindings, inputs=model.inputs, outputs=model.outputs),
    )
    twins = []
    for package in (_pack_shipped(model, folder / COREML), ours):
        found = _interpret(package, calls)
        for output in (notes.ONSET_OUTPUT, notes.FRAME_OUTPUT, notes.CONTOUR_OUTPUT):
            meter = Meter()
            for one, other in zip(expected, found, strict=True):
                meter.add(one[output], other[output])
            twins.append(_twin(package.name, Path(NOTE_EVENTS.member).name, output, meter.read()))
    return twins


def _twin(form: str, shipped: str, output: str, difference: Difference) -> Twin:
    return Twin(form=form, shipped=shipped, output=output, rms=difference.rms_relative, largest=difference.max_abs)


def _save(path: Path, calls: Sequence[Mapping[str, np.ndarray]]) -> None:
    arrays = {f"{number}/{name}": array for number, call in enumerate(calls) for name, array in call.items()}
    np.savez(path, allow_pickle=False, **arrays)


def _run_onnx(calls: Sequence[Tensors]) -> list[Tensors]:
    file = fetch_file(NOTE_EVENTS, cache=default_cache())
    with open_worker([file], engine="onnxruntime", model_format="onnx") as worker:
        return [
            {name: array.copy() for name, array in worker.run(call, deadline_s=DEADLINE_S).items()} for call in calls
        ]


def _pack_shipped(model: Model, place: Path) -> _Package:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, sha256 in MLPACKAGE.items():
            member = f"basic_pitch/saved_models/icassp_2022/nmp.mlpackage/{name}"
            file = replace(NOTE_EVENTS, member=member, member_sha256=sha256)
            archive.write(copy_from_wheel(file, place / name), name)
    bindings = tuple(Binding(mine, its, "float32", SHAPES[mine]) for mine, its in NAMES.items())
    inputs, outputs = (
        [Tensor(one.name, "float32", SHAPES[one.name]) for one in s] for s in (model.inputs, model.outputs)
    )
    return _Package(COREML, packed.getvalue(), Bindings(bindings, inputs=inputs, outputs=outputs))


def _interpret(package: _Package, calls: Sequence[Tensors]) -> list[Tensors]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source, fed, out = folder / "model.mlpackage.zip", folder / "calls.npz", folder / "out"
        source.write_bytes(package.content)
        _save(fed, [package.bindings.to_file(call) for call in calls])
        out.mkdir()
        request = Request(
            source=str(source), format="coreml", folder=str(out), variants=(package.name,), calibration=str(fed)
        )
        run_path(COREML_RUN, request, interpreters={COREML_RUN.extra: str(FRAMEWORKS)}, timeout_s=TIMEOUT_S)
        with np.load(out / "outputs.npz", allow_pickle=False) as arrays:
            by_call: list[Tensors] = [{} for _ in calls]
            for key in arrays.files:
                number, _, name = key.partition("/")
                by_call[int(number)][name] = arrays[key]
    return [package.bindings.from_file(outputs) for outputs in by_call]
