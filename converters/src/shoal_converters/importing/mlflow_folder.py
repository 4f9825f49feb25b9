"""What is in a folder of MLflow: a model (MLmodel), or a registered model with its versions (meta.yaml)?

Formats: mlflow.org, "MLflow Model format" and "Model signatures"; the registry's as its file store writes it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import msgspec
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel
from shoal_converters.importing.drafting import Known
from shoal_converters.importing.found import Found, list_licences
from shoal_converters.importing.yaml_file import read_yaml
from shoal_converters.inspection.formats import SUFFIXES

MODEL_FILE, META_FILE = "MLmodel", "meta.yaml"
FLAVORS: Mapping[str, tuple[str, ...]] = {
    "onnx": ("data",),
    "tensorflow": ("saved_model_dir", "model_path", "data"),
    "keras": ("data", "keras_module"),
    "sklearn": ("pickled_model",),
    "pytorch": ("model_data",),
    "paddle": ("pickled_model",),
    "python_function": ("model_path", "data"),
}
"""Fields that lead to the model, by flavor; the flavors in the order in which they are preferred."""
KEPT = ("requirements.txt", "conda.yaml", "input_example.json")
MAX_DEPTH = 3


def is_mlflow(folder: Path) -> bool:
    """Whether it is one of them."""
    return (folder / MODEL_FILE).is_file() or (folder / META_FILE).is_file()


def read_mlflow(folder: Path) -> Found:
    """Find the model; of a registered model the newest version.

    Raises:
        BadModel: broken, or the artifacts aren't where the registry says.
    """
    if (folder / MODEL_FILE).is_file():
        return _read_model(folder, name=folder.resolve().name, version=1, origin="")
    return _read_registered(folder)


def _read_registered(folder: Path) -> Found:
    versions = [int(path.name[8:]) for path in folder.glob("version-*") if path.name[8:].isdigit()]
    if versions:
        folder = folder / f"version-{max(versions)}"
    meta = read_yaml(folder / META_FILE)
    source = meta.get("storage_location") or meta.get("source")
    if not isinstance(source, str):
        raise BadModel(f"{folder / META_FILE}: names no source of its artifacts; name the folder with MLmodel itself")
    artifacts = _find_artifacts(folder, source)
    name, version = str(meta.get("name") or folder.parent.name), meta.get("version")
    number = int(version) if isinstance(version, int | str) and str(version).isdigit() else 1
    run = f", run {meta['run_id']}" if meta.get("run_id") else ""
    return _read_model(artifacts, name=name, version=number, origin=f"MLflow registry, {name} version {number}{run}")


def _find_artifacts(folder: Path, source: str) -> Path:
    """Where the registry says, or at the same place below the folder that the registry was moved to."""
    parsed = urlparse(source)
    if parsed.scheme not in ("", "file", "models"):
        raise BadModel(f"{folder}: its artifacts are at {source[:200]!r}: fetch them, and name the folder with MLmodel")
    told = Path(unquote(parsed.path))
    tried = [told] if told.is_absolute() else []
    for parent in [folder, *folder.resolve().parents][:6]:
        tried += [parent / Path(*told.parts[-count:]) for count in range(2, len(told.parts))]
        if parsed.scheme == "models":
            tried += sorted(parent.glob(f"*/models/{told.name.lstrip('/')}/artifacts"))
    found = next((path for path in tried if (path / MODEL_FILE).is_file()), None)
    if found is None:
        raise BadModel(f"{folder}: no {MODEL_FILE} at {source[:200]!r}; name the folder that has it")
    return found


def _read_model(folder: Path, *, name: str, version: int, origin: str) -> Found:
    about = read_yaml(folder / MODEL_FILE)
    flavors = about.get("flavors")
    if not isinstance(flavors, dict) or not flavors:
        raise BadModel(f"{folder / MODEL_FILE}: expected flavors, found none")
    model = _find_model(folder, flavors)
    inputs, outputs, notes = _read_signature(about.get("signature"))
    words = [f"flavors {', '.join(map(str, flavors))}"]
    words += [f"{word} {about[key]}" for key, word in (("run_id", "run"), ("model_uuid", "model")) if about.get(key)]
    if about.get("utc_time_created"):
        words.append(f"made {about['utc_time_created']}")
    known = Known(inputs=inputs, outputs=outputs)
    kept = tuple(folder / file for file in KEPT if (folder / file).is_file())
    return Found(
        kind="MLflow model",
        name=name,
        version=max(1, version),
        model=model,
        files=(*list_licences(folder), *kept),
        known=known,
        origin=f"{origin or 'MLflow model'} ({'; '.join(words)})",
        notes=tuple(notes),
    )


def _find_model(folder: Path, flavors: Mapping[Any, Any]) -> Path | None:
    for flavor, fields in FLAVORS.items():
        configuration = flavors.get(flavor)
        if not isinstance(configuration, dict):
            continue
        for key in fields:
            value = configuration.get(key)
            if isinstance(value, str) and value:
                found = _look_at(folder, folder / value)
                if found is not None:
                    return found
    return None


def _look_at(folder: Path, path: Path) -> Path | None:
    """The model at a path or, where that is a folder, the one inside."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadModel(f"{folder / MODEL_FILE}: names {str(path)[:200]!r}, which is outside of the folder")
    if path.is_file() or (path / "saved_model.pb").is_file():
        return path
    inside = [file for depth in range(1, MAX_DEPTH + 1) for file in sorted(path.glob("/".join("*" * depth)))]
    files = [file for file in inside if file.suffix in SUFFIXES or (file / "saved_model.pb").is_file()]
    return files[0] if files else None


def _read_signature(signature: object) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], list[str]]:
    """Inputs, outputs and notes. Both are JSON texts inside the YAML."""
    if not isinstance(signature, dict):
        return (), (), ["MLmodel has no signature"]
    ends, notes = [], []
    for key in ("inputs", "outputs"):
        text = signature.get(key)
        try:
            specifications = msgspec.json.decode(text) if isinstance(text, str) else []
            tensors = [_tensor(one, number, prefix=key[:-1]) for number, one in enumerate(specifications)]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise BadModel(f"MLmodel: signature: {key} can't be read ({type(error).__name__}: {error})"[:300]) from None
        found = [tensor for tensor in tensors if tensor is not None]
        if len(found) < len(tensors):
            notes.append(f"MLmodel: {key} are columns of a table, not tensors: {len(tensors)} of them")
        ends.append(tuple(found) if len(found) == len(tensors) else ())
    return ends[0], ends[1], notes


def _tensor(specification: dict[str, Any], number: int, *, prefix: str) -> Tensor | None:
    if specification.get("type") != "tensor":
        return None
    about = specification["tensor-spec"]
    name = str(specification.get("name") or f"{prefix}-{number}")
    return Tensor(name[:200], str(about["dtype"])[:100], tuple(max(-1, int(length)) for length in about["shape"]))
