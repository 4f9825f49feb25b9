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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal_wire import sealed_file
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, Model, SealedFile, Variant, parse_manifest
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_chunks

from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import WorkerOptions
from shoal_agent.slots import HeldRelease

ENGINES: Mapping[str, str] = {"onnx": "onnxruntime"}
"""Which engine runs a variant, by the variant's format."""


class LoadFailure(Exception):
    """This release can't be loaded on this board."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A release in the store, with the keys that open its files."""

    held: HeldRelease
    store: Path
    content_keys: Mapping[str, str]


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


def load_models(
    stored: Stored, manifest: Manifest, *, options: WorkerOptions, interpreters: Mapping[str, str], own: str
) -> dict[str, ServingModel]:
    """Load every model of a release, each in a worker of its own. `own` is the interpreter of engines not named.

    Raises:
        LoadFailure: a file, an operation or the engine refused. Nothing is left running.
    """
    with contextlib.ExitStack() as started:
        models = {}
        for model in manifest.models:
            loaded = _load_model(stored, manifest, model, options=options, interpreters=interpreters, own=own)
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
    stored: Stored,
    manifest: Manifest,
    model: Model,
    *,
    options: WorkerOptions,
    interpreters: Mapping[str, str],
    own: str,
) -> ServingModel:
    variant = _choose_variant(model, stored.held.variant)
    engine = ENGINES[variant.format]
    try:
        pipeline = Pipeline(pre=model.pre, post=model.post)
        model_fd = seal_chunks(unseal(stored, manifest.file(variant.files[0])))
        try:
            return ServingModel.start(
                interpreters.get(engine, own),
                engine=engine,
                model_format=variant.format,
                variant=variant.name,
                model_fd=model_fd,
                options=options,
                pipeline=pipeline,
            )
        except BaseException:
            os.close(model_fd)
            raise
    except (OperationError, WorkerError) as error:
        raise LoadFailure(f"model {model.name}, variant {variant.name}: {error}") from None


def _choose_variant(model: Model, preferred: str) -> Variant:
    fitting = [variant for variant in model.variants if variant.format in ENGINES]
    if not fitting:
        formats = sorted({variant.format for variant in model.variants})
        raise LoadFailure(f"model {model.name}: has variants for {formats}, this agent runs {sorted(ENGINES)}")
    return next((variant for variant in fitting if variant.name == preferred), fitting[0])
