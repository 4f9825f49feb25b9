"""How many golden cases does it take to notice that a model was damaged before it was signed?

Digests can't help there: what was signed is what is damaged. One byte of a model's file (of IR: of the one with the
weights) is changed, at a random place to a random other value; the model is loaded and answers items. The first half of
the items are a pool of golden cases, the others are held out. A model is let through by k golden cases if it answers
them, and wrongly so if it answers a held-out item wrongly. The count is the mean over all choices of k cases of the
pool. An answer is right if it is what the undamaged model says, as near as the task wants it (`damage_subjects.py`).
Golden cases are judged in three ways: the answer as the task wants it, the answer as near as correct engines are to
each other, and the model's outputs as near as that.

Run by hand: `python -m benchmarks.damage --out damage.jsonl [--trials 1000] [--items 64] [--few 8] [--json]`. What is
in the file already isn't run again.
"""

import argparse
import json
import math
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from shoal_agent.front.operations.values import Tensors

from benchmarks.damage_engine import DamageEngine, Tried
from benchmarks.damage_subjects import SUBJECTS, Subject

SEED = 20_251_130
ROOT = Path(__file__).resolve().parent.parent
INTERPRETERS = {"tflite-runtime": str(ROOT / ".venv-tflite/bin/python")}
CASES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SLOW = "note-events"
SPARE = 2
"""That many times the items are made, so that enough are left of which the undamaged model is sure."""
CONFIDENCE = 0.95
NEAR = 0.98
"""Correct engines are nearer to each other in their answers, on these models: such a tolerance asks no more of them."""
MOST_DISTANCE = 0.01
"""Nor does this, of outputs: root mean square of the difference, relative to that of the outputs."""
ACCEPTED = 1e-3
"""What is let through wrongly, of all damaged models."""


class Trial(NamedTuple):
    """One damaged model. Of each item, whether its answer was right, and how near it was; 0 where it wasn't reached."""

    end: str
    right: tuple[bool, ...]
    scores: tuple[float, ...]
    distances: tuple[float, ...]
    """Of the outputs from the undamaged model's; known only where a held-out answer is wrong."""

    @property
    def half(self) -> int:
        """Items in the pool of golden cases; the others are held out."""
        return (len(self.right) + 1) // 2

    @property
    def is_wrong(self) -> bool:
        """Whether it answers, and a held-out item wrongly."""
        return self.end == "answered" and not all(self.right[self.half :])


Rule = Callable[[Trial, int], bool]
"""Whether a model passes a golden case that is this item of a trial."""
RULES: Mapping[str, Rule] = {
    "answer_as_the_task_wants": lambda trial, item: trial.right[item],
    "answer_as_near_as_engines": lambda trial, item: trial.right[item] and trial.scores[item] >= NEAR,
    "outputs_as_near_as_engines": lambda trial, item: trial.distances[item] <= MOST_DISTANCE,
}


def main() -> None:
    """Run what isn't in the file yet, and print what came of all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of results, one JSON object a line")
    parser.add_argument("--trials", type=int, default=1000, help="for each model and engine (default: %(default)s)")
    parser.add_argument("--items", type=int, default=64, help="for each model (default: %(default)s)")
    parser.add_argument("--few", type=int, default=8, help="items for note-events, the slowest (default: %(default)s)")
    parser.add_argument("--only", default="", help="only what has this in <model>/<format>/<engine>")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    kept = _read_results(arguments.out)
    results = {}
    for name in [name for name in SUBJECTS if arguments.only in name]:
        done = {number: kept.get(name, {}).get(number) for number in range(arguments.trials)}
        todo = [number for number, record in done.items() if record is None or lacks_distances(record)]
        count = arguments.few if name.startswith(SLOW) else arguments.items
        for number, record in run_trials(name, todo, count=count) if todo else ():
            done[number] = record
            with arguments.out.open("a") as file:
                file.write(json.dumps({"subject": name, "trial": number, **record}) + "\n")
        results[name] = as_trials(record for record in done.values() if record is not None)
        print(f"{name}: {describe(results[name])}", file=sys.stderr, flush=True)
    results |= _by_format(results)
    summary = {name: summarise(trials) for name, trials in results.items()}
    print(json.dumps(summary) if arguments.json else json.dumps(summary, indent=2))


def lacks_distances(record: Mapping[str, Any]) -> bool:
    """Whether a trial must be run again, because its record is of a time before distances were measured."""
    return "distances" not in record and as_trials([record])[0].is_wrong


def run_trials(name: str, trials: Iterable[int], *, count: int) -> Iterable[tuple[int, dict[str, Any]]]:
    """Damage and try a model again and again; a record of each trial."""
    _, model_format, engine_name = name.split("/")
    subject = SUBJECTS[name](SPARE * count)
    interpreter = INTERPRETERS.get(engine_name, sys.executable)
    setting: dict[str, Any] = {"engine": engine_name, "model_format": model_format, "carry": subject.task.carry}
    with DamageEngine.start(interpreter, items=subject.task.items, **setting) as engine:
        reference = engine.try_model(subject.files)
    if reference.end != "answered":
        raise RuntimeError(f"{name}: the undamaged model {reference.end}")
    numbers = subject.task.learn(reference.answers)[:count]
    if len(numbers) < count:
        raise RuntimeError(f"{name}: sure of {len(numbers)} items only, expected {count}")
    items = [subject.task.items[number] for number in numbers]
    expected = [reference.answers[number] for number in numbers]
    with DamageEngine.start(interpreter, items=items, **setting) as engine:
        whole = _judge(subject, engine.try_model(subject.files), numbers=numbers)
        if not all(right for right, _ in whole):
            raise RuntimeError(f"{name}: the undamaged model answers otherwise when it is asked again")
        for trial in trials:
            files, place = damage(subject.files, name=name, trial=trial)
            tried = engine.try_model(files)
            judged = _judge(subject, tried, numbers=numbers)
            record: dict[str, Any] = {**place, "end": tried.end}
            record["right"] = "".join("01"[right] for right, _ in judged)
            record["scores"] = [round(score, 4) for _, score in judged]
            if as_trials([record])[0].is_wrong:
                pairs = zip(tried.answers, expected, strict=True)
                record["distances"] = [round(measure_distance(found, one), 5) for found, one in pairs]
            yield trial, record


def damage(files: Sequence[bytes], *, name: str, trial: int) -> tuple[list[bytes], dict[str, int]]:
    """The files with one byte of the last one changed, which holds the weights, and which byte. All are as likely."""
    generator = np.random.default_rng([SEED, zlib.crc32(name.encode()), trial])
    offset, mask = int(generator.integers(len(files[-1]))), int(generator.integers(1, 256))
    changed = bytearray(files[-1])
    changed[offset] ^= mask
    return [*files[:-1], bytes(changed)], {"offset": offset, "mask": mask}


def as_trials(records: Iterable[Mapping[str, Any]]) -> list[Trial]:
    """Records of the file as trials."""
    return [
        Trial(
            record["end"],
            tuple(letter == "1" for letter in record["right"]),
            tuple(record["scores"]),
            tuple(record.get("distances", ())),
        )
        for record in records
    ]


def summarise(trials: Sequence[Trial]) -> dict[str, Any]:
    """Counts, and what k golden cases let through wrongly; trials may have different numbers of items."""
    answered = [trial for trial in trials if trial.end == "answered"]
    return {
        "trials": len(trials),
        "ends": dict(sorted(Counter(trial.end for trial in trials).items())),
        "all_right": sum(all(trial.right) for trial in answered),
        "wrong_on_held_out": sum(trial.is_wrong for trial in answered),
        **{name: count_cases(trials, passes=passes) for name, passes in RULES.items()},
    }


def count_cases(trials: Sequence[Trial], *, passes: Rule) -> dict[str, Any]:
    """By number of golden cases, what is let through wrongly."""
    cases = {}
    for count in CASES:
        able = [trial for trial in trials if trial.half >= count]
        if able:
            wrongly = math.fsum(let_through(trial, cases=count, passes=passes) for trial in able)
            most = upper_bound(math.ceil(wrongly - 1e-9), of=len(able))
            cases[count] = {"trials": len(able), "wrongly": round(wrongly, 3), "at_most_of_1000": round(1000 * most, 2)}
    enough = [count for count, found in cases.items() if found["wrongly"] < ACCEPTED * found["trials"]]
    return {"needed": min(enough, default=None), "cases": cases}


def let_through(trial: Trial, *, cases: int, passes: Rule) -> float:
    """How likely so many golden cases of the pool let the model through although a held-out answer is wrong."""
    if not trial.is_wrong:
        return 0.0
    passed = sum(passes(trial, item) for item in range(trial.half))
    return math.comb(passed, cases) / math.comb(trial.half, cases)


def upper_bound(found: int, *, of: int) -> float:
    """The largest probability that is in keeping with so many or fewer of so many (Clopper and Pearson, 1934)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(found, of=of, probability=middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def measure_distance(found: Sequence[Tensors], expected: Sequence[Tensors]) -> float:
    """The largest of all outputs of an item: root mean square of the difference, relative to that of what is right."""
    farthest = 0.0
    for outputs, right in zip(found, expected, strict=True):
        for name, array in right.items():
            if name not in outputs or outputs[name].shape != array.shape:
                return math.inf
            difference = outputs[name].astype(np.float64) - array.astype(np.float64)
            scale = float(np.sqrt(np.mean(np.square(array.astype(np.float64))))) or 1.0
            part = float(np.sqrt(np.mean(np.square(difference)))) / scale
            farthest = max(farthest, part if math.isfinite(part) else math.inf)
    return farthest


def describe(trials: Sequence[Trial]) -> str:
    """A summary on one line."""
    told = summarise(trials)
    words = [f"{told['ends']}, wrong {told['wrong_on_held_out']}"]
    for rule in RULES:
        wrongly = {count: found["wrongly"] for count, found in told[rule]["cases"].items()}
        words.append(f"{rule}: let through wrongly by cases {wrongly}")
    return "; ".join(words)


def _at_most(found: int, *, of: int, probability: float) -> float:
    if probability <= 0.0 or found >= of:
        return 1.0
    if probability >= 1.0:
        return 0.0
    logs = (
        math.lgamma(of + 1)
        - math.lgamma(count + 1)
        - math.lgamma(of - count + 1)
        + count * math.log(probability)
        + (of - count) * math.log1p(-probability)
        for count in range(found + 1)
    )
    return math.fsum(math.exp(log) for log in logs)


def _judge(subject: Subject, tried: Tried, *, numbers: Sequence[int]) -> list[tuple[bool, float]]:
    judged = [subject.task.score(number, outputs) for number, outputs in zip(numbers, tried.answers, strict=False)]
    return judged + [(False, 0.0)] * (len(numbers) - len(judged))


def _by_format(results: Mapping[str, Sequence[Trial]]) -> dict[str, list[Trial]]:
    """Trials of all models of a format, in each engine."""
    pooled: dict[str, list[Trial]] = {}
    for name, trials in results.items():
        _, model_format, engine = name.split("/")
        pooled.setdefault(f"all/{model_format}/{engine}", []).extend(trials)
    return pooled


def _read_results(path: Path) -> dict[str, dict[int, Any]]:
    results: dict[str, dict[int, Any]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            results.setdefault(record["subject"], {})[record["trial"]] = record
    return results


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    main()
