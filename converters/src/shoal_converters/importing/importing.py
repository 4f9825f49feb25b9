"""How does a model that another tool wrote come into a folder of its own, with a first recipe?"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from shoal_converters.errors import BadModel, BadRecipe, BuildFailed
from shoal_converters.importing.drafting import Draft, draft_recipe
from shoal_converters.importing.found import Found, list_licences
from shoal_converters.importing.huggingface_folder import is_huggingface, read_huggingface
from shoal_converters.importing.mlflow_folder import is_mlflow, read_mlflow
from shoal_converters.importing.oci_layout import is_oci, unpack_artifact
from shoal_converters.importing.recipe_toml import write_recipe
from shoal_converters.inspection.formats import SUFFIXES, detect_format
from shoal_converters.inspection.inspecting import read_facts

RECIPE = "recipe.toml"
CODE = "model:load"
"""Where a folder has weights only: the module that a person must write."""
DEFAULT_TASK = "classification"
READERS: Mapping[str, tuple[Callable[[Path], bool], Callable[[Path], Found]]] = {
    "mlflow": (is_mlflow, read_mlflow),
    "huggingface": (is_huggingface, read_huggingface),
}
"""What tells that a folder is of a kind, and what reads it. A layout of OCI is unpacked first."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    kind: str
    folder: str
    recipe: str
    files: dict[str, str]
    """SHA-256 of each by its name in the folder."""
    left: tuple[str, ...]
    """To be filled in by a person."""
    notes: tuple[str, ...]


def import_source(source: Path, *, out: Path, task: str, name: str, reference: str, created_at: str) -> Imported:
    """Copy a model into the new folder `out` and write a first recipe beside it. Either all is written or nothing.

    `task` and `name` may be empty: then what the source tells. `reference`: of an artifact in an OCI layout.

    Raises:
        BadModel: the source is of no known kind, broken, or holds no model.
        BadRecipe: `out` exists and isn't empty, or there is no such task.
        BuildFailed: it can't be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadRecipe(f"{out}: exists and isn't empty; name a new folder")
    fresh = out.with_name(f".{out.name}-{os.getpid()}")
    try:
        fresh.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=fresh.parent, prefix=f".{out.name}-unpacked-") as unpacked:
            found = _find(source, Path(unpacked), reference=reference)
            imported = _write(found, fresh, out=out, task=task, name=name, created_at=created_at)
        if out.exists():
            out.rmdir()
        fresh.rename(out)
    except OSError as error:
        raise BuildFailed(f"{out}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return imported


def _find(source: Path, unpacked: Path, *, reference: str) -> Found:
    if is_oci(source):
        artifact = unpack_artifact(source, unpacked, reference=reference)
        found = _find_in_folder(unpacked)
        label = artifact.reference or source.resolve().name
        origin = f"OCI artifact {label} ({artifact.digest}); {found.origin}".rstrip("; ")
        name = label.rpartition("/")[2].partition(":")[0] if found.kind == "model" else found.name
        known = found.known._replace(licence=found.known.licence or artifact.licence)
        return replace(found, kind=f"OCI artifact with {found.kind}", name=name, origin=origin, known=known)
    if reference:
        raise BadRecipe(f"{source}: --reference is for an OCI layout, which has the file oci-layout")
    return _find_in_folder(source)


def _find_in_folder(source: Path) -> Found:
    if not source.exists():
        raise BadModel(f"{source}: no such file or folder")
    if source.is_dir():
        for is_one, read in READERS.values():
            if is_one(source):
                return read(source)
    models = [source] if _is_model(source) else sorted(filter(_is_model, source.rglob("*"))) if source.is_dir() else []
    models = [path for path in models if not any(parent in models for parent in path.parents)]
    if not models:
        kinds = "MLflow (MLmodel, meta.yaml), Hugging Face (config.json), OCI (oci-layout)"
        raise BadModel(f"{source}: expected a folder of {kinds}, or a model's file inside; found none")
    others = tuple(f"other models inside aren't taken: {path}" for path in models[1:4])
    folder = source if source.is_dir() else source.parent
    return Found(
        kind="model",
        name=models[0].stem,
        model=models[0],
        files=list_licences(folder),
        origin=models[0].name,
        notes=others,
    )


def _is_model(path: Path) -> bool:
    """Whether its name is a model's; an .xml may be anything without its .bin."""
    if path.is_dir():
        return (path / "saved_model.pb").is_file()
    if path.suffix == ".xml":
        return path.with_suffix(".bin").is_file()
    return path.suffix in SUFFIXES


def _write(found: Found, folder: Path, *, out: Path, task: str, name: str, created_at: str) -> Imported:
    model = found.model
    kept = [*found.files, *([] if model is None else _companions(model))]
    target = None
    if model is not None:
        target = folder / model.name
        _copy(model, target)
    for path in kept:
        if not (folder / path.name).exists():
            _copy(path, folder / path.name)
    digests = {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    known = found.known._replace(provenance=_word_origin(found, digests))
    draft = draft_recipe(
        CODE if target is None else target,
        task=task or found.task or DEFAULT_TASK,
        folder=folder,
        name=name or found.name,
        version=found.version,
        created_at=created_at,
        known=known,
    )
    left = _add_left(draft, found, has_task=bool(task or found.task))
    write_recipe(draft.recipe, folder / RECIPE, left=left)
    return Imported(
        kind=found.kind,
        folder=str(out),
        recipe=str(out / RECIPE),
        files=digests,
        left=left,
        notes=found.notes,
    )


def _add_left(draft: Draft, found: Found, *, has_task: bool) -> tuple[str, ...]:
    left = [*draft.left]
    if not has_task:
        left.insert(0, f"task: nothing tells what the model does; {draft.recipe.task} is a guess")
    if found.model is None:
        left.insert(0, f"source: write {CODE.partition(':')[0]}.py with a function that gives the model, or export it")
    return (*left, *found.notes)


def _companions(model: Path) -> list[Path]:
    """Files beside a model that it names, as far as they are there."""
    if detect_format(model) not in ("onnx", "openvino", "paddle"):
        return []
    names = [name for name in read_facts(model).external_files if Path(name).name == name]
    return [model.parent / name for name in names if (model.parent / name).is_file()]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _word_origin(found: Found, digests: Mapping[str, str]) -> str:
    files = ", ".join(f"{name} sha256 {digest}" for name, digest in list(digests.items())[:20])
    return f"{found.origin or found.kind}. Files: {files}"
