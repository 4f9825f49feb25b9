"""How do the candidates of a model become a verdict on this board?"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
from shoal_wire.tuning import Candidate
from shoal_worker.memory import seal_chunks

from shoal_agent.board import read_kind
from shoal_agent.board_detection import detect_here
from shoal_agent.configuration import Configuration, SlotSetting
from shoal_agent.files import Files
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.swap import hold
from shoal_agent.tuned import Choice, Conditions, Measured, Refused, Verdict
from shoal_agent.tuning.bench import Bench, LoadedFiles
from shoal_agent.tuning.errors import TuningFailed
from shoal_agent.tuning.material import Material
from shoal_agent.tuning.meters import Meter
from shoal_agent.tuning.options import TuneOptions
from shoal_agent.tuning.rules import choose, pareto_set
from shoal_agent.tuning.search import Found, Goal, search
from shoal_agent.tuning.task import GoldenTask
from shoal_agent.tuning.verdicts import find_verdict

Tell = Callable[[str], None]
"""Hears, a line each, how far it has come."""


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """All that it takes to measure the candidates of `conditions`."""

    material: Material
    options: TuneOptions
    configuration: Configuration
    conditions: Conditions
    task: GoldenTask
    meter: Meter
    tell: Tell

    def only(self, candidates: tuple[Candidate, ...], *, budget_s: float) -> "Measuring":
        """The same for some of the candidates and up to that much time: a verdict of its own, under its own key."""
        return replace(
            self,
            options=replace(self.options, budget_s=min(self.options.budget_s, budget_s)),
            conditions=msgspec.structs.replace(self.conditions, candidates=candidates),
        )

    def find_earlier(self, files: Files) -> Verdict | None:
        """The verdict that was kept and still holds, unless a fresh one is wanted."""
        options = self.options
        if options.is_fresh:
            return None
        return find_verdict(files, options.state, conditions=self.conditions, budget_s=options.budget_s)

    def search(self) -> Verdict:
        """Measure within the budget.

        Raises:
            TuningFailed: no candidate answers right.
        """
        began = time.monotonic()
        material, options = self.material, self.options
        here = [one for one in self.conditions.candidates if not material.lacks(one.variant)]
        with _loaded_files(material, here) as variants:
            bench = Bench(
                variants,
                task=self.task,
                interpreters=self.configuration.interpreters,
                own=sys.executable,
                deadline_s=self.configuration.slots.get(material.model.name, SlotSetting()).deadline_s,
                meter=self.meter,
            )
            with contextlib.closing(bench):
                goal = Goal(options.objective, options.limits, options.budget_s)
                found = search(here, bench, goal=goal, tell=self.tell)
        refused = (*found.refused, *self._absent())
        if not found.measured:
            raise TuningFailed(f"{material.what}: no candidate answers right: {_list(refused)}")
        return Verdict(
            model=material.model.name,
            at=time.time(),
            conditions=self.conditions,
            budget_s=options.budget_s,
            took_s=time.monotonic() - began,
            is_settled=found.is_settled,
            meter=self.meter.name,
            measured=found.measured,
            refused=refused,
            pareto=tuple(one.candidate for one in pareto_set(found.measured)),
            choice=_choose(found, options),
            board=read_kind(processors=self.conditions.processors),
            profile=detect_here().profile,
        )

    def _absent(self) -> list[Refused]:
        return [
            Refused(candidate=one, reason=f"not on this board: {', '.join(self.material.lacks(one.variant))}")
            for one in self.conditions.candidates
            if self.material.lacks(one.variant)
        ]


def _choose(found: Found, options: TuneOptions) -> Choice:
    """Among the finalists; where none of them meets the limits, among all."""
    finalists: list[Measured] = [one for one in found.measured if one.is_finalist]
    choice = choose(finalists or found.measured, objective=options.objective, limits=options.limits)
    if choice.candidate is None:
        choice = choose(found.measured, objective=options.objective, limits=options.limits)
    return choice


@contextlib.contextmanager
def _loaded_files(material: Material, candidates: Sequence[Candidate]) -> Iterator[dict[str, LoadedFiles]]:
    """The files of the candidates' variants in memory, for as long as the block lasts."""
    wanted = {one.variant for one in candidates}
    model = material.model
    with contextlib.ExitStack() as opened:
        variants = {}
        for variant in model.variants:
            if variant.name not in wanted:
                continue
            try:
                bindings = Bindings(variant.bindings, inputs=model.inputs, outputs=model.outputs)
            except BadPipeline as error:
                raise TuningFailed(f"{material.what}: variant {variant.name}: {error}") from None
            fds = []
            for name in variant.files:
                fds.append(seal_chunks(material.read(name)))
                opened.callback(os.close, fds[-1])
            for mapped in hold(fds):
                opened.callback(mapped.close)
            variants[variant.name] = LoadedFiles(
                model_format=variant.format,
                fds=tuple(fds),
                size_bytes=tuple(material.sizes[name] for name in variant.files),
                measured_bytes=variant.memory_bytes,
                bindings=bindings,
            )
        yield variants


def _list(refused: Sequence[Refused]) -> str:
    return "; ".join(f"{one.candidate}: {one.reason}" for one in refused[:6]) or "none could be tried"
