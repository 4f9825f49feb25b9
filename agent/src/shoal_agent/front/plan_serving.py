"""When does a model that came as ONNX go over to a plan that was built for this very board?

The engine that the model came for serves from the first moment. In the background, niced, a plan is found or built, and
proven as a candidate is: it must answer the release's golden cases. Only then do the model's workers go over to it, and
they come back where it kills them. Building takes minutes.
"""

import base64
import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from shoal_wire.manifest import Manifest, Model, SealedFile
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_bytes

from shoal_agent.engine_table import PLAN_ENGINES
from shoal_agent.files import Files
from shoal_agent.front.admission import Peak, limit_bytes
from shoal_agent.front.checking import run_golden_cases
from shoal_agent.front.errands import Errands
from shoal_agent.front.loading import Stored
from shoal_agent.front.model_workers import Chore, Death, Recipe, Unavailable
from shoal_agent.front.plan_store import SealedPlans
from shoal_agent.front.plans import PlanKey, find_or_build, read_board_release
from shoal_agent.front.probe import ProbeResult, probe_engine
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import Worker, WorkerOptions
from shoal_agent.slots import PLANS
from shoal_agent.tuned import ServingChoice

PLAN_FORMATS: Mapping[str, str] = {"tensorrt": "tensorrt-plan"}
"""Format of the plan that an engine builds."""
NICE = 10
"""Neither a build nor golden cases must take the processor from live input."""
BUILD_TIMEOUT_S = 3600.0
MAX_DETAIL = 2000
"""Characters of a notice."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model that serves, and all that it takes to make a plan of it. `model_fd` is this one's own."""

    stored: Stored
    manifest: Manifest
    model: Model
    file: SealedFile
    """Of the variant that serves."""
    serving: ServingModel
    recipe: Recipe
    """That builds a plan of the model."""
    model_fd: int


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What came of a plan's golden cases."""

    passed: bool
    words: str
    held_bytes: int
    """By its worker, after them."""


class PlanServing:
    """Looks for plans, one model after the other, in a thread of its own."""

    def __init__(
        self, *, files: Files, do_in_turn: Callable[[Chore], None], notice: Callable[[str, str], None]
    ) -> None:
        """`do_in_turn` does a chore when no release is being loaded or let go of; `notice` tells the fleet."""
        self._files = files
        self._do_in_turn = do_in_turn
        self._notice = notice
        self._background = Errands()
        self._background.put(_yield_to_others)
        self._probes: dict[str, ProbeResult] = {}

    def seek(self, stored: Stored, manifest: Manifest, models: Mapping[str, ServingModel]) -> None:
        """Have the models of a release that was just loaded go over to plans, where this board has an engine for that.

        A model for which tuning chose another engine stays with it. Returns at once. What came of it is told in a
        notice, `plan-ready` or `plan-refused`, for each model.
        """
        for model in manifest.models:
            serving = models[model.name]
            recipe = _find_recipe(serving)
            if recipe is None:
                continue
            (name,) = next(variant.files for variant in model.variants if variant.name == serving.variant)
            file = manifest.file(name)
            chosen = stored.tuned.get(model.name)
            if is_chosen_otherwise(chosen, model_sha256=file.plaintext_sha256, engine=recipe.engine):
                continue
            subject = Subject(
                stored=stored,
                manifest=manifest,
                model=model,
                file=file,
                serving=serving,
                recipe=recipe,
                model_fd=os.dup(recipe.model_fds[0]),  # the model may be let go of meanwhile
            )
            self._background.put(partial(self._settle, subject))

    def _settle(self, subject: Subject) -> None:
        """Find a plan and have the model go over to it, or say why not. Whatever happens, the model serves on."""
        try:
            plan, proof = self._find(subject)
            if proof.passed:
                self._do_in_turn(partial(self._go_over, subject, plan, proof))
            else:
                self._tell("plan-refused", subject, proof.words)
        except Exception as error:
            # Even a fault of ours: what serves is worth more than the plan.
            self._tell("plan-refused", subject, f"{type(error).__name__}: {error}")
        finally:
            os.close(subject.model_fd)

    def _find(self, subject: Subject) -> tuple[bytes, Proof]:
        probe = self._probe(subject.recipe)
        if not probe.is_usable:
            raise WorkerError(f"{probe.engine} doesn't work here: {probe.reason}")
        key = PlanKey(
            model_sha256=subject.file.plaintext_sha256,
            precision=subject.recipe.options.precision,
            engine=probe.engine,
            engine_version=probe.version,
            device=", ".join(probe.placement),
            board_release=read_board_release(),
        )
        content_key = base64.b64decode(subject.stored.content_keys[subject.file.ciphertext_sha256])
        store = SealedPlans(subject.stored.store.with_name(PLANS), files=self._files, content_key=content_key)
        return find_or_build(key, store=store, build=partial(_build, subject), prove=partial(_prove, subject))

    def _probe(self, recipe: Recipe) -> ProbeResult:
        """Once for each interpreter: neither GPU nor library comes or goes while a front lives."""
        if recipe.interpreter not in self._probes:
            self._probes[recipe.interpreter] = probe_engine(
                recipe.interpreter, engine=recipe.engine, model_format=recipe.model_format
            )
        return self._probes[recipe.interpreter]

    def _go_over(self, subject: Subject, plan: bytes, proof: Proof) -> None:
        """Serve by the plan, with the share of the processors that the model has by now."""
        options = (_find_recipe(subject.serving) or subject.recipe).options
        limited = replace(options, limit_bytes=limit_bytes(Peak(proof.held_bytes, is_measured=True)))
        recipe = _plan_recipe(subject, plan, options=limited)
        try:
            subject.serving.prefer(recipe)
        except Unavailable:
            os.close(recipe.model_fds[0])  # the release was let go of: nobody waits for its plan
        except WorkerError as error:
            os.close(recipe.model_fds[0])
            self._tell("plan-refused", subject, str(error))
        else:
            self._tell("plan-ready", subject, proof.words)

    def _tell(self, name: str, subject: Subject, words: str) -> None:
        what = f"{subject.manifest.name} {subject.manifest.version}, model {subject.model.name}"
        self._notice(name, f"{what}: {words}"[:MAX_DETAIL])


def is_chosen_otherwise(chosen: ServingChoice | None, *, model_sha256: str, engine: str) -> bool:
    """Whether tuning measured this very model on this board, and another engine than this was better."""
    return chosen is not None and chosen.files == (model_sha256,) and chosen.candidate.engine != engine


def _build(subject: Subject) -> bytes:
    recipe = subject.recipe
    with Worker.start(
        recipe.interpreter,
        engine=recipe.engine,
        model_fd=subject.model_fd,
        options=_background_options(recipe),
        model_format=recipe.model_format,
        timeout_s=BUILD_TIMEOUT_S,
    ) as worker:
        if worker.plan is None:
            raise WorkerError(f"engine {recipe.engine} gave no plan back")
        return worker.plan


def _prove(subject: Subject, plan: bytes) -> Proof:
    """Run the golden cases of the model by a plan, through the pipeline that serves.

    Raises:
        ModelRefused: the engine doesn't take the plan.
        WorkerError: it can't be loaded or run once.
    """
    recipe = _plan_recipe(subject, plan, options=_background_options(subject.recipe))
    try:
        candidate = ServingModel.start(
            [recipe], pipeline=subject.serving.pipeline, variant=subject.serving.variant, watcher=_Unheard()
        )
    except BaseException:
        os.close(recipe.model_fds[0])
        raise
    with contextlib.closing(candidate):
        alone = msgspec.structs.replace(subject.manifest, models=(subject.model,))
        verdict = run_golden_cases(subject.stored, alone, {subject.model.name: candidate})
        where = f"{recipe.engine} {candidate.info.engine_version} on {', '.join(candidate.info.placement)}"
        return Proof(
            passed=verdict.passed, words=f"{where}: {verdict.reason}", held_bytes=candidate.workers.held_bytes()
        )


def _find_recipe(serving: ServingModel) -> Recipe | None:
    """The recipe that builds a plan of a model, where the model has one and isn't served by it already."""
    present = serving.workers.recipe
    engine = PLAN_ENGINES.get(present.model_format)
    if engine == present.engine:
        return None
    return next((recipe for recipe in serving.workers.recipes if recipe.engine == engine), None)


def _plan_recipe(subject: Subject, plan: bytes, *, options: WorkerOptions) -> Recipe:
    """How the model is served by its plan; the caller owns the descriptor in it."""
    plan_format = PLAN_FORMATS[subject.recipe.engine]
    return replace(subject.recipe, model_format=plan_format, model_fds=(seal_bytes(plan),), options=options)


def _background_options(recipe: Recipe) -> WorkerOptions:
    """No control group of its own: what a build needs is in no relation to the model's size."""
    return WorkerOptions(threads=1, nice=NICE, precision=recipe.options.precision)


def _yield_to_others() -> None:
    """Make this thread less urgent: it prepares golden cases itself."""
    os.nice(NICE)


class _Unheard:
    """Nobody needs to know what a plan on trial does to its worker: its golden cases say it."""

    def died(self, death: Death) -> None:
        """See `Watcher`."""

    def noticed(self, name: str, detail: str) -> None:
        """See `Watcher`."""

    def stopped(self, reason: str) -> None:
        """See `Watcher`."""
