"""Which golden cases does a release have, and how near must a board come to them?

Every engine here runs every released variant on them. What correct engines differ by is what a board may; an engine
that answers one wrongly is told to the publisher, and boards that have it will choose another.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from msgspec.structs import replace
from shoal_agent.engine_table import ELSEWHERE
from shoal_wire.manifest import GoldenCase, Model, Operation
from shoal_wire.tuning import Candidate

from shoal_converters.errors import BuildFailed
from shoal_converters.forms import Form
from shoal_converters.golden_cases import Picked
from shoal_converters.recorded_outputs import OutputsDiffer, add_reference_outputs, list_strays, record_outputs
from shoal_converters.report.results import Golden
from shoal_converters.spread import Judged, choose_tolerance, judge_golden_cases, list_runs

MARGIN = 0.05
"""Below the lowest score that was seen, for engines and processors that were not."""
LEAST_SCORE = 0.1
"""Asked of a golden case: with less it would tell nothing."""
KEPT_CALLS = 1
"""Of each case the outputs of so many calls are recorded."""
WORKERS = 2
MAX_SOURCE = 4000

Ask = Callable[[Model, Mapping[str, bytes]], list[Judged | str]]
"""Runs golden cases; `contents` has the bytes of files by name."""


@dataclass(frozen=True, kw_only=True)
class Promised:
    """A model with its golden cases, the files that they need, and what to tell of them."""

    model: Model
    contents: Mapping[str, bytes]
    golden: tuple[Golden, ...]
    notes: tuple[str, ...]


def promise(
    model: Model,
    forms: Sequence[Form],
    picked: Sequence[Picked],
    *,
    compare: Callable[[float], Operation],
    ask: Ask,
) -> Promised:
    """Give a model, which has its variants, its golden cases. `compare` makes their comparison with a least score.

    Variants that run elsewhere (Core ML) have them too, but nobody here says how near they come.

    Raises:
        BuildFailed: no case is answered rightly by the engines that the variants were judged in, or in each of them
            outputs of correct engines differ too far; or no variant runs here.
    """
    forms = [form for form in forms if form.format not in ELSEWHERE]
    if not forms:
        raise BuildFailed("golden cases: no variant runs on this machine; release one in full precision beside them")
    files = {name: content for form in forms for name, content in form.files.items()}
    cases = {f"golden-{number}{one.item.suffix}": one for number, one in enumerate(picked, 1)}
    files |= {name: one.item.raw for name, one in cases.items()}
    here = replace(
        model,
        variants=tuple(variant for variant in model.variants if variant.format not in ELSEWHERE),
        golden=tuple(_case(name, one, compare(0.0)) for name, one in cases.items()),
    )
    said = ask(here, files)
    judged = [one for one in said if isinstance(one, Judged)]
    failures = [one for one in said if isinstance(one, str)]
    if {form.name for form in forms} - {one.candidate.variant for one in judged}:
        raise BuildFailed(f"golden cases: a variant that no engine here runs: {'; '.join(failures)}")
    notes = [f"golden cases: {one}" for one in failures]
    kept = _list_right(here, judged)
    correct = [one for one in judged if all(one.verdicts[place].score >= LEAST_SCORE + MARGIN for place in kept)]
    notes += [_describe_wrong(one, here, kept) for one in judged if one not in correct]
    correct, strays = _leave_strays(here, correct, kept, same=group_same(forms))
    kept, doubts = _leave_doubtful(here, correct, kept, same=group_same(forms))
    notes += [*strays, *doubts]
    here = replace(here, golden=tuple(here.golden[place] for place in kept))
    correct = [_only(one, kept) for one in correct]
    here = replace(here, golden=tuple(_tolerate(here, correct, place, compare) for place in range(len(kept))))
    here, outputs = add_reference_outputs(here, correct, same=group_same(forms))
    return Promised(
        model=replace(model, golden=here.golden),
        contents={case.file: files[case.file] for case in here.golden} | outputs,
        golden=tuple(_report(case, cases[case.file]) for case in here.golden),
        notes=tuple(notes),
    )


def ask_engines(model: Model, contents: Mapping[str, bytes]) -> list[Judged | str]:
    """What every engine here says to a model's golden cases, or a sentence where it can't run a variant.

    Of each variant the usual engine, computing exactly, comes first.

    Raises:
        BuildFailed: a variant that no engine here reads.
    """

    def run_one(run: Candidate) -> Judged | str:
        try:
            ((judged,),) = judge_golden_cases([model], contents, runs=[run], kept_calls=KEPT_CALLS)
        except BuildFailed as error:
            return str(error)
        return judged

    with ThreadPoolExecutor(WORKERS) as threads:
        return list(threads.map(run_one, list_runs(model)))


def group_same(forms: Sequence[Form]) -> tuple[tuple[str, ...], ...]:
    """Names of variants that compute the same up to rounding: all in float are one group, others are alone."""
    floats = tuple(form.name for form in forms if form.precision in ("fp32", "fp16"))
    others = tuple((form.name,) for form in forms if form.name not in floats)
    return ((floats,) if floats else ()) + others


def _case(file: str, picked: Picked, comparison: Operation) -> GoldenCase:
    return GoldenCase(
        name=file.partition(".")[0],
        file=file,
        expected=picked.item.expected,
        comparison=comparison,
        source=f"Expected answer: item {picked.item.name[:200]} of the evaluation set, picked as {picked.kind}.",
    )


def _list_right(model: Model, judged: Sequence[Judged]) -> list[int]:
    """Places of the cases that every variant answers rightly in its usual engine, computing exactly."""
    usual = {one.candidate.variant: one for one in reversed(judged)}.values()
    kept = [
        place
        for place in range(len(model.golden))
        if all(one.verdicts[place].passed and one.verdicts[place].score >= LEAST_SCORE + MARGIN for one in usual)
    ]
    if not kept:
        raise BuildFailed("golden cases: none is answered rightly by every variant in its usual engine")
    return kept


def _leave_strays(
    model: Model, correct: Sequence[Judged], kept: Sequence[int], *, same: Sequence[Sequence[str]]
) -> tuple[list[Judged], list[str]]:
    """Runs but those whose outputs lie far off in most cases: there it is the engine, not the case. Each has a note."""
    counts = Counter(
        run.words
        for place in kept
        for variants in same
        for run in list_strays(model, correct, case=place, variants=variants)
    )
    strays = {words: count for words, count in counts.items() if 2 * count > len(kept)}
    notes = [
        f"{words} gives far other outputs in {count} of {len(kept)} golden cases, though the answers are right: boards "
        "won't serve with it"
        for words, count in strays.items()
    ]
    return [one for one in correct if one.words not in strays], notes


def _leave_doubtful(
    model: Model, correct: Sequence[Judged], kept: Sequence[int], *, same: Sequence[Sequence[str]]
) -> tuple[list[int], list[str]]:
    """Cases that correct engines answer from nearly the same outputs, and a note for each of the others."""
    agreed, notes = [], []
    for place in kept:
        try:
            for variants in same:
                record_outputs(model, correct, case=place, variants=variants, file="outputs.npz")
        except OutputsDiffer as error:
            notes.append(f"left out: {error}")
        else:
            agreed.append(place)
    if not agreed:
        raise BuildFailed(f"golden cases: {'; '.join(notes)}")
    return agreed, notes


def _only(judged: Judged, kept: Sequence[int]) -> Judged:
    return Judged(
        candidate=judged.candidate,
        version=judged.version,
        verdicts=tuple(judged.verdicts[place] for place in kept),
        outputs=tuple(judged.outputs[place] for place in kept),
    )


def _describe_wrong(judged: Judged, model: Model, kept: Sequence[int]) -> str:
    place = next(place for place in kept if judged.verdicts[place].score < LEAST_SCORE + MARGIN)
    verdict = judged.verdicts[place]
    return (
        f"{judged.words} answers golden case {model.golden[place].name} wrongly ({verdict.words}): boards won't serve "
        "with it"
    )


def _tolerate(model: Model, correct: Sequence[Judged], place: int, compare: Callable[[float], Operation]) -> GoldenCase:
    case = model.golden[place]
    tolerance = choose_tolerance(correct, case=place, margin=MARGIN, score="score", least=LEAST_SCORE)
    source = f"{case.source} {tolerance.source}"[:MAX_SOURCE]
    return replace(case, comparison=compare(tolerance.minimum), source=source)


def _report(case: GoldenCase, picked: Picked) -> Golden:
    (minimum,) = (value for key, value in case.comparison.parameters.items() if key.startswith("minimum_"))
    return Golden(
        item=picked.item.name,
        kind=picked.kind,
        minimum=minimum,
        maximum_difference=max((one.maximum_difference for one in case.outputs), default=None),
    )
