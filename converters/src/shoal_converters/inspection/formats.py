"""Which format is a model file of? By what is in it first, then by its name."""

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from shoal_converters.errors import BadModel
from shoal_converters.inspection.archives import open_archive
from shoal_converters.inspection.coreml_package import is_coreml
from shoal_converters.inspection.framework_files import is_paddle, is_savedmodel
from shoal_converters.inspection.onnx_file import is_onnx
from shoal_converters.inspection.protobuf import Message, map_file
from shoal_converters.paths import SOURCES

KINDS: Mapping[str, str] = {
    **SOURCES,
    "coreml": "Core ML model (.mlpackage, .mlmodel)",
    "release": "release folder (release.json)",
}
"""Formats that `shoal-convert inspect` knows."""

SUFFIXES: Mapping[str, str] = {
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".xml": "openvino",
    ".pt2": "torch-export",
    ".ts": "torchscript",
    ".torchscript": "torchscript",
    ".pt": "torchscript",
    ".pth": "torchscript",
    ".keras": "keras",
    ".h5": "keras",
    ".pdmodel": "paddle",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
    ".mlmodel": "coreml",
}
"""Where the content doesn't tell: broken files too, whose reader says then what is wrong."""

REFUSED: Mapping[bytes, str] = {
    b"GGUF": "a GGUF file of llama.cpp: language models are run by runtimes of their own, not converted",
    b"\x93NUMPY": "a NumPy array, not a model",
    b"\x7fELF": "a program or library of this machine, not a model",
}
"""By their first bytes: what people have instead of a model."""

TORCH_PICKLE = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
"""Number at the beginning of what torch.save wrote before it wrote zip files (torch/serialization.py)."""
HEAD_BYTES = 4096
CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def detect_format(source: Path) -> str:
    """A key of `shoal_converters.paths.SOURCES`, for a recipe's source.

    Raises:
        BadModel: no such file, of no known format, or of one that can't be converted.
    """
    kind = detect_kind(source)
    if kind not in SOURCES:
        raise BadModel(f"{source}: a {KINDS[kind]}, from which nothing is converted; expected {_all_of(SOURCES)}")
    return kind


def detect_kind(source: Path) -> str:
    """A key of `KINDS`. Raises as `detect_format` does."""
    if source.is_dir():
        return _detect_folder(source)
    if not source.is_file():
        if CODE.match(str(source)):
            raise BadModel(f"{source}: code doesn't say what it gives: set format to torch-code or sklearn-code")
        raise BadModel(f"{source}: no such file or folder")
    with source.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise BadModel(f"{source}: the file is empty")
    return _detect_file(source, head)


def _detect_folder(folder: Path) -> str:
    for name, kind in (
        ("release.json", "release"),
        ("saved_model.pb", "savedmodel"),
        ("saved_model.pbtxt", "savedmodel"),
        ("Manifest.json", "coreml"),
    ):
        if (folder / name).is_file():
            return kind
    inside = sorted(path.name for path in folder.iterdir() if path.suffix in SUFFIXES)[:5]
    hint = f"; name one of the files inside: {', '.join(inside)}" if inside else ""
    raise BadModel(f"{folder}: a folder with neither release.json, saved_model.pb nor Manifest.json{hint}")


def _detect_file(source: Path, head: bytes) -> str:
    for start, words in REFUSED.items():
        if head.startswith(start):
            raise BadModel(f"{source}: {words}")
    if head[4:8] == b"TFL3":
        return "tflite"
    if head.startswith(b"PK") and zipfile.is_zipfile(source):
        return _detect_archive(source)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "keras"
    if re.match(rb"(\xef\xbb\xbf)?\s*(<\?xml|<net\b|<!)", head):
        return "openvino"
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        if head[2:14] == TORCH_PICKLE:
            raise BadModel(f"{source}: weights of an old PyTorch, without a program: give the code as module:function")
        return "sklearn"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 100_000_000 and source.suffix == ".safetensors":
        raise BadModel(f"{source}: weights without a program: give the code that makes the model as module:function")
    kind = _detect_message(source)
    named = SUFFIXES.get(source.suffix.lower(), "")
    if not kind and not named:
        raise BadModel(f"{source}: of no known format (it starts with {head[:8]!r}); expected {_all_of(KINDS)}")
    return kind or named


def _detect_archive(source: Path) -> str:
    """A zip file by the names inside."""
    with open_archive(source) as archive:
        names = archive.namelist()
    tests: Mapping[str, Callable[[str], bool]] = {
        "torch-export": lambda name: name.endswith(("serialized_exported_program.json", "models/model.json")),
        "keras": lambda name: name == "model.weights.h5",
        "coreml": lambda name: name.endswith("com.apple.CoreML/model.mlmodel"),
        "torchscript": lambda name: name.endswith(("/data.pkl", "/constants.pkl")),
    }
    for kind, test in tests.items():
        if any(map(test, names)):
            return kind
    raise BadModel(f"{source}: a zip file that holds no model of a known format (inside: {', '.join(names[:5])})")


def _detect_message(source: Path) -> str:
    """A message of Protocol Buffers by its fields; empty where it is none."""
    try:
        message = Message(map_file(source), what=str(source))
    except BadModel:
        return ""
    if is_savedmodel(message):
        raise BadModel(f"{source}: a part of a SavedModel: name its folder, {source.parent}")
    tests: Mapping[str, Callable[[Message], bool]] = {"onnx": is_onnx, "paddle": is_paddle, "coreml": is_coreml}
    return next((kind for kind, test in tests.items() if test(message)), "")


def _all_of(formats: Mapping[str, str]) -> str:
    return "; ".join(words for name, words in formats.items() if not name.endswith("-code"))
