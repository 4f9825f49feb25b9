"""How does a release in the store become a model that answers?

Sealed files are opened in memory only, chunk by chunk, into a write-sealed memfd that the worker gets; weights never
touch the disk. What tuning chose says which variant is loaded and which engine is tried first, and in what manner that
one runs; the other engines are tried after it, in the manner of a board that was never tuned.

    LoadFailure     this release can't be loaded on this board; the message says which part and why
"""

import base64
import binascii
import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from shoal_wire import sealed_file
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, Model, SealedFile, Variant, parse_manifest
from shoal_wire.tuning import Candidate
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_chunks

from shoal_agent.engine_table import ELSEWHERE, PLAN_ENGINES, engines_for, runnable_engines
from shoal_agent.front.admission import Peak, limit_bytes, predict_peak
from shoal_agent.front.bindings import AS_IT_IS, Bindings
from shoal_agent.front.model_workers import Recipe, Watcher
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Array, WorkerOptions
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import ServingChoice, variant_with


class LoadFailure(Exception):
    """This release can't be loaded on this board."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A release in the store, with the keys that open its files."""

    held: HeldRelease
    store: Path
    content_keys: Mapping[str, str]
    tuned: Mapping[str, ServingChoice] = field(default_factory=dict)
    """What tuning chose, by model."""


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
    is_beside: bool = False
    """Whether another release answers meanwhile, which is left the processors."""


class Way(NamedTuple):
    """How a model of a release is loaded."""

    variant: Variant
    choice: Candidate | None = None
    """What tuning chose, where it counts."""
    ignored: str = ""
    """Why what tuning chose for this model doesn't count; empty where it does or nothing was chosen."""


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


def choose_ways(stored: Stored, manifest: Manifest, *, setting: LoadSetting) -> tuple[Way, ...]:
    """How each model of a release is loaded, in the manifest's order.

    Raises:
        LoadFailure: a model has no variant that runs here.
    """
    held = stored.held.variant.split(",")
    names = held if len(held) == len(manifest.models) else [""] * len(manifest.models)
    return tuple(
        _choose_way(stored, manifest, model, held_variant=name, setting=setting)
        for model, name in zip(manifest.models, names, strict=True)
    )


def is_same(ways: Sequence[Way], others: Sequence[Way]) -> bool:
    """Whether a release that was loaded in one of these ways runs as in the other."""
    return [(way.variant, way.choice) for way in ways] == [(way.variant, way.choice) for way in others]


def predict_peaks(manifest: Manifest, ways: Sequence[Way]) -> tuple[Peak, ...]:
    """What each model of a release will need of memory."""
    return tuple(_predict_peak(manifest, way.variant) for way in ways)


def load_models(
    stored: Stored,
    manifest: Manifest,
    ways: Sequence[Way],
    *,
    setting: LoadSetting,
    watcher: Watcher,
    timeout_s: float = LOAD_TIMEOUT_S,
) -> dict[str, ServingModel]:
    """Load every model of a release, each in a worker of its own that has answered a golden case's input once.

    Raises:
        LoadFailure: a file, an operation or every engine refused. Nothing is left running.
    """
    with contextlib.ExitStack() as started:
        models = {}
        for model, way in zip(manifest.models, ways, strict=True):
            if way.ignored:
                watcher.noticed("tuning-ignored", f"model {model.name}: {way.ignored}")
            loaded = _load_model(stored, manifest, model, way, setting=setting, watcher=watcher, timeout_s=timeout_s)
            started.callback(loaded.close)
            models[model.name] = loaded
        started.pop_all()
    return models


def unseal(stored: Stored, file: SealedFile) -> Iterator[bytes]:
    """The plaintext of a file, chunk by chunk; whole and as signed only once it ended without an error.

    Raises:
        LoadFailure: no key, not in the store, damaged, or another plaintext than the manifest says.
    """
    return _open(stored, file, sealed_file.unseal)


def unseal_into_memory(stored: Stored, file: SealedFile) -> int:
    """Descriptor of a write-sealed memfd that holds the plaintext of a file. Raises as `unseal` does."""
    return seal_chunks(_open(stored, file, sealed_file.unseal_views))


_Plain = TypeVar("_Plain", bytes, memoryview | bytes)


def _open(
    stored: Stored, file: SealedFile, open_parts: Callable[[Iterator[bytes], bytes], Iterator[_Plain]]
) -> Iterator[_Plain]:
    try:
        content_key = base64.b64decode(stored.content_keys[file.ciphertext_sha256], validate=True)
        digest = hashlib.sha256()
        with (stored.store / file.ciphertext_sha256).open("rb") as raw:
            for chunk in open_parts(sealed_file.read_parts(raw.read), content_key):
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


def make_recipes(
    way: Way,
    setting: LoadSetting,
    *,
    model_fds: tuple[int, ...],
    warm_up: Mapping[str, Array],
    bindings: Bindings = AS_IT_IS,
) -> list[Recipe]:
    """A recipe for each engine, in the order in which they are tried.

    What was chosen on another device than the engine takes unasked is followed by the same engine without it.
    """
    choice, model_format = way.choice, way.variant.format
    engines = _engines_for(way.variant, setting=setting)
    recipes = []
    plans = PLAN_ENGINES.get(model_format)  # serves once `plan_serving` has its plan; the last resort before
    for engine in sorted(engines, key=lambda name: choice is None or name != choice.engine or name == plans):
        recipe = Recipe(
            interpreter=setting.interpreters.get(engine, setting.own),
            engine=engine,
            model_format=model_format,
            model_fds=model_fds,
            options=setting.options,
            warm_up=warm_up,
            deadline_s=setting.deadline_s,
            bindings=bindings,
        )
        if choice is not None and engine == choice.engine:
            options = _chosen_options(choice, setting.options)
            recipes.append(replace(recipe, options=options, most_threads=choice.threads, batch=choice.batch))
        if choice is None or engine != choice.engine or choice.device:
            recipes.append(recipe)
    return [recipe.with_share(setting.options.threads) for recipe in recipes]


def _chosen_options(choice: Candidate, options: WorkerOptions) -> WorkerOptions:
    """What a device's driver takes of memory is in no relation to the model: there a worker has no limit of its own."""
    chosen = replace(options, precision=choice.precision, device=choice.device)
    return replace(chosen, groups=None, limit_bytes=0) if choice.device else chosen


def _engines_for(variant: Variant, *, setting: LoadSetting) -> tuple[str, ...]:
    """Engines here that compute a variant right, in the order in which they are tried."""
    engines = engines_for(variant.format, interpreters=setting.interpreters, allowed=setting.engines)
    return tuple(engine for engine in engines if variant.is_right_in(engine))


def _load_model(
    stored: Stored,
    manifest: Manifest,
    model: Model,
    way: Way,
    *,
    setting: LoadSetting,
    watcher: Watcher,
    timeout_s: float,
) -> ServingModel:
    variant = way.variant
    limited = replace(setting.options, limit_bytes=limit_bytes(_predict_peak(manifest, variant)))
    with contextlib.ExitStack() as sealed:
        fds = []
        try:
            pipeline = Pipeline(pre=model.pre, post=model.post)
            golden = b"".join(unseal(stored, manifest.file(model.golden[0].file)))
            warm_up = pipeline.prepare(golden).calls[0]
            bindings = Bindings(variant.bindings, inputs=model.inputs, outputs=model.outputs)
            for name in variant.files:
                fds.append(unseal_into_memory(stored, manifest.file(name)))
                sealed.callback(os.close, fds[-1])
            recipes = make_recipes(
                way, replace(setting, options=limited), model_fds=tuple(fds), warm_up=warm_up, bindings=bindings
            )
            loaded = ServingModel.start(
                recipes,
                pipeline=pipeline,
                variant=variant.name,
                watcher=watcher,
                timeout_s=timeout_s,
                is_beside=setting.is_beside,
            )
        except (OperationError, WorkerError) as error:
            raise LoadFailure(f"model {model.name}, variant {variant.name}: {error}") from None
        sealed.pop_all()  # they are the model's now
    return loaded


def _predict_peak(manifest: Manifest, variant: Variant) -> Peak:
    sizes = [manifest.file(name).plaintext_bytes for name in variant.files]
    return predict_peak(measured_bytes=variant.memory_bytes, file_bytes=sizes)


def _choose_way(stored: Stored, manifest: Manifest, model: Model, *, held_variant: str, setting: LoadSetting) -> Way:
    """The variant that tuning chose if it can be loaded, else the one that the slot names, else any that is here."""
    fitting = [variant for variant in model.variants if _engines_for(variant, setting=setting)]
    if not fitting:
        found = sorted({variant.needed_engines for variant in model.variants})
        formats = {variant.format for variant in model.variants}
        where = "".join(f"; {sentence}" for name, sentence in ELSEWHERE.items() if name in formats)
        runnable = runnable_engines(interpreters=setting.interpreters, allowed=setting.engines)
        has = "; ".join(f"{name} in {', '.join(engines)}" for name, engines in runnable.items())
        raise LoadFailure(f"model {model.name}: has variants for {found}, engines here run {has or 'nothing'}{where}")
    here = [variant for variant in fitting if _is_here(stored, manifest, variant)]
    ordinary = next((variant for variant in fitting if variant.name == held_variant), (here or fitting)[0])
    tuned = stored.tuned.get(model.name)
    chosen = variant_with(tuned.files, manifest=manifest, among=model.variants) if tuned else None
    if tuned is None or chosen is None:
        return Way(ordinary)
    if chosen not in here:
        return Way(ordinary, ignored=f"variant {chosen.name} was chosen, which isn't on this board any more")
    engines = _engines_for(chosen, setting=setting)
    engine = tuned.candidate.engine
    if engine not in engines:
        return Way(
            ordinary, ignored=f"engine {engine} was chosen for {chosen.format}, engines here are {list(engines)}"
        )
    return Way(chosen, tuned.candidate)


def _is_here(stored: Stored, manifest: Manifest, variant: Variant) -> bool:
    digests = [manifest.file(name).ciphertext_sha256 for name in variant.files]
    return all(digest in stored.content_keys and (stored.store / digest).exists() for digest in digests)
