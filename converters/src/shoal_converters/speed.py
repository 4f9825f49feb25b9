"""How fast is each variant on this machine, in every engine that reads it?

Measured by the bench that boards are tuned with: whole answers, from an item's bytes on, by workers that stay loaded.
All variants have one turn in every round, in an order that changes, so that a machine which gets busier does so for
all, and rounds can be compared one by one.
"""

import contextlib
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace
from shoal_agent.cpu_budget import budget, read_processors
from shoal_agent.engine_table import ELSEWHERE, ENGINES, present
from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.tuning.bench import Bench, CandidateFailed, LoadedFiles, Turn
from shoal_agent.tuning.grid import UsableEngine, list_candidates, spread
from shoal_agent.tuning.meters import Meter, find_meter
from shoal_agent.tuning.rules import typical
from shoal_agent.tuning.search import Timed
from shoal_agent.tuning.task import Run
from shoal_wire.manifest import Model
from shoal_wire.tuning import Candidate
from shoal_worker.memory import seal_bytes

from shoal_converters.forms import Form
from shoal_converters.report.results import Speed

DEADLINE_S = 60.0
"""For one inference."""
LOAD_TIMEOUT_S = 120.0
TIMED_ITEMS = 4
"""Every turn answers all of them: more would make turns long without telling more."""
LEAST_ROUNDS = 5
"""With fewer nothing could be said to be faster, whatever the difference: see `gains.CHANCE`."""
ROUNDS = 12
"""As many as a claim of `gains` needs with two to spare, where the budget holds them."""
TURN_S = (0.08, 0.25)
"""Least and longest time of a turn. Many short ones tell more than few long ones: a burst of other work spoils one."""
LOADING_SHARE = 0.5
"""Of the time, for loading more than one setting of each variant in each engine."""
RATE_EVERY = 3
"""Rounds: half of a turn's time goes to the sustained rate and the energy in them."""

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What was measured of one variant."""

    speeds: tuple[Speed, ...] = ()
    not_timed: dict[str, str] = field(default_factory=dict)
    """Why it has no speed, by engine and precision, or by format where no engine reads it."""


@dataclass(frozen=True, kw_only=True)
class Timings:
    """What was measured of all."""

    variants: Mapping[str, Timing]
    rounds: int
    meter: str
    """What energy was read from; empty where this machine has none."""


class Checked(NamedTuple):
    """Candidates that answer, and why others don't, by candidate."""

    right: list[Candidate]
    failed: dict[Candidate, str]


class ItemTask:
    """Items without known answers: whoever answers at all is timed. See `shoal_agent.tuning.task.Task`."""

    def __init__(self, model: Model, raws: Sequence[bytes]) -> None:
        """`raws`: files as boards get them, at least one; the first TIMED_ITEMS are timed.

        Raises:
            BadPipeline: the model asks for operations that the agent doesn't have.
        """
        self._pipeline = Pipeline(pre=model.pre, post=model.post)
        self._raws = raws[:TIMED_ITEMS]
        self.items = len(self._raws)
        self.item_s = 0.0
        """One warm answer by every candidate that was checked."""

    def check(self, run: Run, *, candidate: Candidate) -> str:
        """Answer every item, the first of them once more to have the time of a warm answer."""
        for number in range(self.items):
            self.answer(number, run)
        began = time.perf_counter()
        self.answer(0, run)
        self.item_s += time.perf_counter() - began
        return ""

    def answer(self, number: int, run: Run) -> None:
        """See `Task`."""
        prepared = self._pipeline.prepare(self._raws[number])
        self._pipeline.finish(run(prepared), prepared.context)

    def fit(self, seconds: float) -> None:
        """Time so few items that ROUNDS passes by all candidates take about `seconds`; one at least."""
        if self.item_s > 0:
            self.items = max(1, min(self.items, int(seconds / ROUNDS / self.item_s)))


def measure_speed(
    forms: Sequence[Form],
    items: Sequence[bytes],
    *,
    model: Model,
    budget_s: float,
    interpreters: Mapping[str, str] | None = None,
    meter: Meter | None = None,
    tell: Tell = lambda _: None,
) -> Timings:
    """Time all forms of a model, with one thread and with all that this process may use, within about `budget_s`.

    `model` says signature and operations; its own variants don't count. `items` are files as boards get them.
    `interpreters`: Python by engine, where an engine isn't in this one. Nothing that a variant or an engine does is an
    error of the measurement: it is told in `not_timed`.

    Raises:
        BadPipeline: the model asks for operations that the agent doesn't have, or a form's bindings contradict it.
    """
    elsewhere = interpreters or {}
    meter = meter or find_meter()
    task = ItemTask(model, items)
    candidates = list_settings(forms, model=model, interpreters=elsewhere)
    loads_until = time.monotonic() + LOADING_SHARE * budget_s
    with _load_files(forms, model=model) as files:
        bench = Bench(files, task=task, interpreters=elsewhere, own=sys.executable, deadline_s=DEADLINE_S, meter=meter)
        with contextlib.closing(bench):
            checked = check_candidates(candidates, bench, until=loads_until, clock=time.monotonic, tell=tell)
            left_s = (1 - LOADING_SHARE) * budget_s  # however long loading took
            task.fit(left_s)
            ends_at = time.monotonic() + left_s
            rounds = time_rounds(checked.right, bench, ends_at=ends_at, clock=time.monotonic, tell=tell)
    failed = {**checked.failed, **rounds.failed}
    variants = {form.name: _summarise(form, rounds=rounds, failed=failed, candidates=candidates) for form in forms}
    return Timings(variants=variants, rounds=rounds.count, meter=meter.name)


def list_settings(forms: Sequence[Form], *, model: Model, interpreters: Mapping[str, str]) -> tuple[Candidate, ...]:
    """Every engine here that computes a form right, exactly and in shorter types, with one thread and with all."""
    engines = [UsableEngine(one.engine, one.model_format, "") for one in present(interpreters=interpreters)]
    threads = sorted({1, budget(read_processors(), configured=0)})
    runtimes = {form.name: form.runtimes for form in forms}
    described = replace(model, variants=tuple(form.variant for form in forms))
    settings = list_candidates(described, engines, threads=threads, batches=(1,), architecture=platform.machine())
    return tuple(one for one in settings if not runtimes[one.variant] or one.engine in runtimes[one.variant])


def check_candidates(
    candidates: Sequence[Candidate], timed: Timed, *, until: float, clock: Callable[[], float], tell: Tell
) -> Checked:
    """Load each and have it answer. An engine that fails a variant isn't tried with more threads.

    After `until`, only a variant's first setting in each engine is still loaded.
    """
    right: list[Candidate] = []
    failed: dict[Candidate, str] = {}
    kinds: set[tuple[str, str, str]] = set()
    pairs: set[tuple[str, str]] = set()
    skipped = 0
    for candidate in spread(candidates):
        kind = (candidate.variant, candidate.engine, candidate.precision)
        if kind in kinds:
            continue
        if clock() > until and kind[:2] in pairs:
            skipped += 1
            continue
        pairs.add(kind[:2])
        try:
            timed.check(candidate, timeout_s=LOAD_TIMEOUT_S)
        except CandidateFailed as error:
            kinds.add(kind)
            failed[candidate] = str(error)
            tell(f"{candidate}: not timed: {error}")
            continue
        right.append(candidate)
        tell(f"{candidate}: loaded")
    if skipped:
        tell(f"no time for {skipped} further settings")
    return Checked(right, failed)


@dataclass
class _Seen:
    """All turns of one candidate."""

    latencies_ms: list[float] = field(default_factory=list)
    medians_ms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    def note(self, turn: Turn, *, peak_bytes: int) -> None:
        self.latencies_ms += turn.latencies_ms
        self.medians_ms.append(statistics.median(turn.latencies_ms))
        if turn.answers_per_s is not None:
            self.rates.append(turn.answers_per_s)
        if turn.joules is not None:
            self.joules.append(turn.joules)
        self.peak_bytes = peak_bytes


@dataclass
class Rounds:
    """What all rounds showed."""

    seen: dict[Candidate, _Seen] = field(default_factory=dict)
    failed: dict[Candidate, str] = field(default_factory=dict)
    count: int = 0


def time_rounds(
    candidates: Sequence[Candidate], timed: Timed, *, ends_at: float, clock: Callable[[], float], tell: Tell
) -> Rounds:
    """Up to ROUNDS rounds, as many as end before `ends_at` by the look of the longest one so far; LEAST_ROUNDS anyhow.

    Who fails in its turn has no further one, and no speed.
    """
    rounds = Rounds(seen={candidate: _Seen() for candidate in candidates})
    seconds = max(TURN_S[0], min(TURN_S[1], (ends_at - clock()) / max(1, len(candidates) * ROUNDS)))
    longest_s = 0.0
    while rounds.seen and rounds.count < ROUNDS and (rounds.count < LEAST_ROUNDS or clock() + longest_s <= ends_at):
        began = clock()
        for candidate in _order(list(rounds.seen), rounds.count):
            try:
                turn = timed.turn(candidate, seconds=seconds, with_rate=rounds.count % RATE_EVERY == 0)
            except CandidateFailed as error:
                rounds.failed[candidate] = str(error)
                del rounds.seen[candidate]
                continue
            rounds.seen[candidate].note(turn, peak_bytes=timed.peak_bytes(candidate))
        rounds.count += 1
        longest_s = max(longest_s, clock() - began)
        tell(f"round {rounds.count} of {ROUNDS}: {len(rounds.seen)} settings timed")
    return rounds


def _order(candidates: list[Candidate], number: int) -> list[Candidate]:
    """Each round begins with another, and every second one runs backwards: nobody always follows the same neighbour."""
    first = number % len(candidates)
    order = [*candidates[first:], *candidates[:first]]
    return order if number % 2 == 0 else order[::-1]


def _summarise(
    form: Form, *, rounds: Rounds, failed: Mapping[Candidate, str], candidates: Sequence[Candidate]
) -> Timing:
    speeds = tuple(
        _speed(one, rounds.seen[one]) for one in candidates if one.variant == form.name and one in rounds.seen
    )
    not_timed = {f"{one.engine} ({one.precision})": why for one, why in failed.items() if one.variant == form.name}
    if not any(one.variant == form.name for one in candidates):
        readers = form.runtimes or ENGINES.get(form.format, ())
        not_timed[form.format] = ELSEWHERE.get(
            form.format, f"no engine that computes it is installed here; expected one of {', '.join(readers) or 'none'}"
        )
    return Timing(speeds=speeds, not_timed=not_timed)


def _speed(candidate: Candidate, seen: _Seen) -> Speed:
    """Of rounds the better half speaks, as in tuning: what a machine does besides makes nobody faster."""
    p50_ms = typical(seen.medians_ms)
    ordered = sorted(seen.latencies_ms)
    return Speed(
        engine=candidate.engine,
        precision=candidate.precision,
        threads=candidate.threads,
        p50_ms=p50_ms,
        p95_ms=max(p50_ms, ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]),
        answers_per_s=-typical([-rate for rate in seen.rates]),
        memory_bytes=seen.peak_bytes,
        joules=statistics.median(seen.joules) if seen.joules else None,
        rounds_ms=tuple(seen.medians_ms),
    )


@contextlib.contextmanager
def _load_files(forms: Sequence[Form], *, model: Model) -> Iterator[dict[str, LoadedFiles]]:
    """The files of all forms in memory, for as long as the block lasts."""
    with contextlib.ExitStack() as opened:
        loaded = {}
        for form in forms:
            bindings = Bindings(form.bindings, inputs=model.inputs, outputs=model.outputs)
            fds = []
            for content in form.files.values():
                fds.append(seal_bytes(content))
                opened.callback(os.close, fds[-1])
            loaded[form.name] = LoadedFiles(
                model_format=form.format,
                fds=tuple(fds),
                size_bytes=tuple(map(len, form.files.values())),
                bindings=bindings,
            )
        yield loaded
