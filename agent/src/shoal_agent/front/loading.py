"""How does a release in the store become a model that answers?

Sealed files are opened in memory only, chunk by chunk, into a write-sealed memfd that the worker gets; weights never
touch the disk.

    LoadFailure     this release can't be loaded on this board; the message says which part and why
"""

import base64
import binascii
import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shoal_wire import sealed_file
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, Model, SealedFile, Variant, parse_manifest
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_chunks

from shoal_agent.engine_table import ELSEWHERE, engines_for, runnable_formats
from shoal_agent.front.admission import Peak, limit_bytes, predict_peak
from shoal_agent.front.model_workers import Recipe, Watcher
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import LOAD_TIMEOUT_S, WorkerOptions
from shoal_agent.slots import HeldRelease


class LoadFailure(Exception):
    """This release can't be loaded on this board."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A release in the store, with the keys that open its files."""

    held: HeldRelease
    store: Path
    content_keys: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LoadSetting:
    """How models are loaded on this board. `own` is the interpreter of engines that `interpreters` doesn't name."""

    options: WorkerOptions
    interpreters: Mapping[str, str]
    engines: Collection[str] = ()
    """That may run models; empty means all that are found."""
    own: str
    deadline_s: float
    """For one inference."""


def load_manifest(stored: Stored) -> Manifest:
    """The manifest that the slot names.

    Raises:
        LoadFailure: it is not in the store, or is another.
    """
    expected = stored.held.reference.manifest_sha256
    try:
        raw = (stored.store / expected).read_bytes()
        if hashlib.sha256(raw).hexdigest() != expected:
            raise LoadFailure(f"manifest {expected[:12]}: its bytes in the store were changed")
        return parse_manifest(raw)
    except OSError as error:
        raise LoadFailure(f"manifest {expected[:12]}: not in the store ({error.strerror})") from None
    except WireError as error:
        raise LoadFailure(str(error)) from None


def predict_peaks(stored: Stored, manifest: Manifest, *, setting: LoadSetting) -> tuple[Peak, ...]:
    """What each model of a release will need of memory.

    Raises:
        LoadFailure: a model has no variant that runs here.
    """
    variants = [_choose_variant(model, stored.held.variant, setting=setting) for model in manifest.models]
    return tuple(_predict_peak(manifest, variant) for variant in variants)


def load_models(
    stored: Stored, manifest: Manifest, *, setting: LoadSetting, watcher: Watcher, timeout_s: float = LOAD_TIMEOUT_S
) -> dict[str, ServingModel]:
    """Load every model of a release, each in a worker of its own that has answered a golden case's input once.

    Raises:
        LoadFailure: a file, an operation or every engine refused. Nothing is left running.
    """
    with contextlib.ExitStack() as started:
        models = {}
        for model in manifest.models:
            loaded = _load_model(stored, manifest, model, setting=setting, watcher=watcher, timeout_s=timeout_s)
            started.callback(loaded.close)
            models[model.name] = loaded
        started.pop_all()
    return models


def unseal(stored: Stored, file: SealedFile) -> Iterator[bytes]:
    """The plaintext of a file, chunk by chunk; whole and as signed only once it ended without an error.

    Raises:
        LoadFailure: no key, not in the store, damaged, or another plaintext than the manifest says.
    """
    try:
        content_key = base64.b64decode(stored.content_keys[file.ciphertext_sha256], validate=True)
        digest = hashlib.sha256()
        with (stored.store / file.ciphertext_sha256).open("rb") as raw:
            for chunk in sealed_file.unseal(sealed_file.read_parts(raw.read), content_key):
                digest.update(chunk)
                yield chunk
    except (KeyError, binascii.Error):
        raise LoadFailure(f"file {file.name}: the device holds no key for it") from None
    except OSError as error:
        raise LoadFailure(f"file {file.name}: not in the store ({error.strerror})") from None
    except WireError as error:
        raise LoadFailure(f"file {file.name}: {error}") from None
    if digest.hexdigest() != file.plaintext_sha256:
        raise LoadFailure(f"file {file.name}: opens to other bytes than the manifest says")


def _load_model(
    stored: Stored, manifest: Manifest, model: Model, *, setting: LoadSetting, watcher: Watcher, timeout_s: float
) -> ServingModel:
    variant = _choose_variant(model, stored.held.variant, setting=setting)
    options = replace(setting.options, limit_bytes=limit_bytes(_predict_peak(manifest, variant)))
    with contextlib.ExitStack() as sealed:
        fds = []
        try:
            pipeline = Pipeline(pre=model.pre, post=model.post)
            golden = b"".join(unseal(stored, manifest.file(model.golden[0].file)))
            warm_up = pipeline.prepare(golden).calls[0]
            for name in variant.files:
                fds.append(seal_chunks(unseal(stored, manifest.file(name))))
                sealed.callback(os.close, fds[-1])
            recipes = [
                Recipe(
                    interpreter=setting.interpreters.get(engine, setting.own),
                    engine=engine,
                    model_format=variant.format,
                    model_fds=tuple(fds),
                    options=options,
                    warm_up=warm_up,
                    deadline_s=setting.deadline_s,
                )
                for engine in engines_for(variant.format, interpreters=setting.interpreters, allowed=setting.engines)
            ]
            loaded = ServingModel.start(
                recipes, pipeline=pipeline, variant=variant.name, watcher=watcher, timeout_s=timeout_s
            )
        except (OperationError, WorkerError) as error:
            raise LoadFailure(f"model {model.name}, variant {variant.name}: {error}") from None
        sealed.pop_all()  # they are the model's now
    return loaded


def _predict_peak(manifest: Manifest, variant: Variant) -> Peak:
    sizes = [manifest.file(name).plaintext_bytes for name in variant.files]
    return predict_peak(measured_bytes=variant.memory_bytes, file_bytes=sizes)


def _choose_variant(model: Model, preferred: str, *, setting: LoadSetting) -> Variant:
    runnable = runnable_formats(interpreters=setting.interpreters, allowed=setting.engines)
    fitting = [variant for variant in model.variants if variant.format in runnable]
    if not fitting:
        formats = sorted({variant.format for variant in model.variants})
        where = "".join(f"; {ELSEWHERE[name]}" for name in formats if name in ELSEWHERE)
        raise LoadFailure(f"model {model.name}: has variants for {formats}, engines here run {sorted(runnable)}{where}")
    return next((variant for variant in fitting if variant.name == preferred), fitting[0])
