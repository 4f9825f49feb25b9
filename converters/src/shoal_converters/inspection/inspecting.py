"""What is a model file, what runs it here, and which boards can? Reads, tries, judges."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shoal_wire.device_profile import DeviceProfile
from shoal_wire.errors import WireError
from shoal_wire.manifest import MAX_MANIFEST_BYTES, ReleaseDraft, parse_draft

from shoal_converters.errors import BadModel
from shoal_converters.inspection.boards import judge_boards
from shoal_converters.inspection.coreml_package import read_coreml
from shoal_converters.inspection.facts import EngineRun, Facts, Inspection, Part, TensorFacts
from shoal_converters.inspection.formats import detect_kind
from shoal_converters.inspection.framework_files import read_keras, read_paddle, read_savedmodel, read_sklearn
from shoal_converters.inspection.onnx_file import read_onnx
from shoal_converters.inspection.openvino_file import read_openvino
from shoal_converters.inspection.running import try_engines
from shoal_converters.inspection.tflite_file import read_tflite
from shoal_converters.inspection.torch_archive import read_torch_export, read_torchscript

READERS: Mapping[str, Callable[[Path], Facts]] = {
    "onnx": read_onnx,
    "tflite": read_tflite,
    "openvino": read_openvino,
    "coreml": read_coreml,
    "torch-export": read_torch_export,
    "torchscript": read_torchscript,
    "savedmodel": read_savedmodel,
    "keras": read_keras,
    "paddle": read_paddle,
    "sklearn": read_sklearn,
}
"""By format. To add one: write its reader, name it here and in `formats.KINDS`."""


def read_facts(path: Path) -> Facts:
    """What a model file or folder holds; nothing is run.

    Raises:
        BadModel: no such file, of no known format, broken, or a release folder, which holds several.
    """
    kind = detect_kind(path)
    if kind == "release":
        raise BadModel(f"{path}: a release folder; expected one model: name a file inside")
    return READERS[kind](path)


def inspect(path: Path, *, profiles: Sequence[DeviceProfile], runs_engines: bool) -> Inspection:
    """Read a model, or each variant of a release folder; try the engines here if asked to; judge the boards.

    Raises:
        BadModel: see `read_facts`.
    """
    kind = detect_kind(path)
    size = _size(path)
    if kind == "release":
        return _inspect_release(path, profiles=profiles, runs_engines=runs_engines)
    facts = READERS[kind](path)
    beside = [path.parent / name for name in facts.external_files if Path(name).name == name]
    size += sum(file.stat().st_size for file in beside if file.is_file())
    runs = try_engines(path, facts) if runs_engines else ()
    return Inspection(
        path=str(path),
        size_bytes=size,
        sha256=_digest(path) if path.is_file() else "",
        facts=facts,
        engines=runs,
        boards=judge_boards(facts, profiles, size_bytes=size, runs=runs),
    )


def load_draft(folder: Path) -> ReleaseDraft:
    """The `release.json` of a release folder.

    Raises:
        BadModel: it can't be read, or names a file that isn't in the folder.
    """
    file = folder / "release.json"
    try:
        with file.open("rb") as opened:
            draft = parse_draft(opened.read(MAX_MANIFEST_BYTES + 1))
    except OSError as error:
        raise BadModel(f"{file}: {error.strerror or error}") from None
    except WireError as error:
        raise BadModel(f"{file}: {error}") from None
    for one in draft.files:
        if not (folder / one.path).resolve().is_relative_to(folder.resolve()) or not (folder / one.path).is_file():
            raise BadModel(f"{file}: names {one.path!r}, which is no file in the folder")
    return draft


def _inspect_release(folder: Path, *, profiles: Sequence[DeviceProfile], runs_engines: bool) -> Inspection:
    draft = load_draft(folder)
    paths = {file.name: folder / file.path for file in draft.files}
    parts = []
    for model in draft.models:
        for variant in model.variants:
            path = paths[variant.files[0]]
            reader = READERS.get(variant.format)
            facts = Facts(format=variant.format) if reader is None else reader(path)
            runs: tuple[EngineRun, ...] = try_engines(path, facts) if runs_engines else ()
            size = sum(paths[name].stat().st_size for name in variant.files)
            boards = judge_boards(facts, profiles, size_bytes=size, runs=runs)
            parts.append(Part(name=f"{model.name}/{variant.name}", facts=facts, engines=runs, boards=boards))
    first = draft.models[0]
    facts = Facts(
        format="release",
        inputs=tuple(TensorFacts(name=one.name, dtype=one.dtype, shape=one.shape) for one in first.inputs),
        outputs=tuple(TensorFacts(name=one.name, dtype=one.dtype, shape=one.shape) for one in first.outputs),
        versions={"release": f"{draft.name} {draft.version}", "made": draft.created_at, "licence": draft.licence},
    )
    size = sum(path.stat().st_size for path in paths.values())
    return Inspection(path=str(folder), size_bytes=size, facts=facts, parts=tuple(parts))


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
