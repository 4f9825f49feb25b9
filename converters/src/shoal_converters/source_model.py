"""Where is the trained model that a recipe names, of what format is it, and which bytes is it made of?"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.inspection.formats import detect_format
from shoal_converters.inspection.inspecting import read_facts
from shoal_converters.paths import SOURCES
from shoal_converters.recipe import Source

CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""`module:function`."""
CODE_FORMATS = ("torch-code", "sklearn-code")
COMPANIONS: Mapping[str, str] = {"openvino": ".bin", "paddle": ".pdiparams"}
"""The file beside the named one that holds the weights, by format."""
NAMING = ("onnx", "tflite")
"""Formats whose files say which others hold their weights."""
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SourceModel:
    """A trained model on this disk."""

    path: str
    """Absolute; `module:function` as it is."""
    format: str
    code_folder: str
    """What goes on the module path, where the model is code."""
    sha256: str
    """Of the file. Of several, as of weights beside it: of their names and digests, in the order of names. Of code: of
    the module's file."""


def open_source(source: Source, *, folder: Path) -> SourceModel:
    """Find a recipe's source; `folder` is the recipe's.

    Raises:
        BadRecipe: an unknown format, or one that doesn't fit the path.
        BadModel: no such file, or none of a known format.
    """
    if source.format and source.format not in SOURCES:
        raise BadRecipe(f"source: unknown format {source.format!r}, expected one of {sorted(SOURCES)}")
    path = folder / source.path
    if CODE.fullmatch(source.path) and not path.exists():
        return _open_code(source, folder=folder)
    if source.format in CODE_FORMATS:
        raise BadRecipe(f"source: {source.path!r}, expected module:function, since its format is {source.format}")
    if not path.exists():
        raise BadModel(f"{path}: no such file or folder")
    found = source.format or detect_format(path)
    return SourceModel(path=str(path.resolve()), format=found, code_folder="", sha256=_digest(path, found))


def digest_file(path: Path) -> str:
    """SHA-256 of a file, in hex.

    Raises:
        BadModel: it can't be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
    return digest.hexdigest()


def _open_code(source: Source, *, folder: Path) -> SourceModel:
    module, _, _ = source.path.partition(":")
    file = folder / Path(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise BadModel(f"{source.path}: expected the module's file at {file}")
    return SourceModel(
        path=source.path,
        format=source.format or CODE_FORMATS[0],
        code_folder=str(folder.resolve()),
        sha256=digest_file(file),
    )


def _digest(path: Path, model_format: str) -> str:
    files = dict(_list_files(path, model_format))
    if len(files) == 1:
        return digest_file(path)
    lines = [f"{name} {digest_file(file)}\n" for name, file in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _list_files(path: Path, model_format: str) -> Iterator[tuple[str, Path]]:
    """Names, relative to the model, and files."""
    if path.is_dir():
        for file in path.rglob("*"):
            if file.is_file():
                yield str(file.relative_to(path)), file
        return
    yield path.name, path
    for name in _list_companions(path, model_format):
        yield name, path.with_name(name)


def _list_companions(path: Path, model_format: str) -> list[str]:
    """Names of the files beside a model that hold its weights."""
    if model_format in COMPANIONS:
        return [path.with_suffix(COMPANIONS[model_format]).name]
    if model_format not in NAMING:
        return []
    try:
        named = read_facts(path).external_files
    except BadModel:
        return []  # whoever converts it says what is wrong
    return [name for name in named if Path(name).name == name and path.with_name(name).is_file()]
