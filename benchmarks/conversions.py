"""What does the workbench make of real models: how accurate, large and fast is each variant, and is it released?

For each model a folder is made with a recipe, the model as it is published, and labelled sets to calibrate and to judge
(`conversion_pictures.py`, `conversion_sounds.py`, `conversion_texts.py`, `conversion_torch.py`); then `shoal-convert
build` runs as a person would run it. The table has, for each variant, the task's metric of the original and of the
variant with its 95 % interval, and against the full-precision variant of its own format: the size, how many times as
fast a whole answer comes (from bytes, in the format's usual engine, one thread), and how many times as fast the network
is alone. Below it is why what isn't released isn't.

Where `.venv-converters` exists, its PyTorch, TensorFlow and Core ML tools take part; else models that need them are
left out. Run by hand: `python -m benchmarks.conversions [--models digits …] [--out FILE] [--json]`. It takes about 20
minutes on two cores; with --out, what FILE has already isn't done again.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from shoal_converters.inspection.inspecting import inspect
from shoal_converters.recipe import Budget
from shoal_converters.report.results import Report
from shoal_converters.wheels import WheelFile, default_cache, fetch_file

from benchmarks.conversion_pictures import PICTURES
from benchmarks.conversion_rows import Result, find_int8_instructions, make_rows, write_table
from benchmarks.conversion_sounds import SOUNDS
from benchmarks.conversion_speed import measure_inference_ratios
from benchmarks.conversion_subject import FRAMEWORKS, RECIPE, Subject, write_subject
from benchmarks.conversion_texts import TEXTS
from benchmarks.conversion_torch import TORCH
from benchmarks.conversion_twins import compare_with_twins
from benchmarks.real_models import MODELS

SUBJECTS: Mapping[str, Subject] = {**PICTURES, **TEXTS, **SOUNDS, **TORCH}
"""To add one: see `conversion_subject.py`."""
INSPECTED: Mapping[str, WheelFile] = {"wake-word": MODELS["wake-word"].variants["tflite-int8"].source}
"""Models that can't be built, as no operation feeds them: this one takes spectra three by three, and keeps a state
within itself. What the workbench says of them is told."""
EXTRAS = ("torch", "litert-torch", "tensorflow", "coreml")
"""What FRAMEWORKS stands in for."""
TWINS = "note-events"
"""Models that begin so are one network, which its makers give in several formats."""
LOG = "build.log"
TIMEOUT_S = 3_600


def measure_model(name: str, *, work: Path, budget: Budget) -> Result:
    """Prepare, build, and read what came out."""
    subject, folder = SUBJECTS[name], work / name
    write_subject(subject, folder, budget=budget)
    release = folder / "release"
    command = [str(Path(sys.executable).with_name("shoal-convert")), "build", RECIPE, "--out", release.name]
    if FRAMEWORKS.exists():
        command += [part for extra in EXTRAS for part in ("--python", f"{extra}={FRAMEWORKS}")]
    began = time.monotonic()
    with (folder / LOG).open("w") as log:
        done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=TIMEOUT_S, check=False)
    seconds = round(time.monotonic() - began, 1)
    if done.returncode:
        last = (folder / LOG).read_text().strip().splitlines() or ["said nothing"]
        return Result(model=name, seconds=seconds, failed=f"exit code {done.returncode}: {last[-1]}")
    report = msgspec.json.decode((release / "report.json").read_bytes(), type=Report)
    return Result(
        model=name,
        seconds=seconds,
        metric=report.metric,
        items=report.samples,
        original=report.original.value,
        rows=make_rows(report, measure_inference_ratios(release)),
        missing=report.missing,
        notes=report.notes,
        twins=compare_with_twins(release, folder=folder) if name.startswith(TWINS) else (),
        int8_instructions=find_int8_instructions(),
        machine=report.machine,
        versions=report.versions,
    )


def inspect_model(name: str) -> Result:
    """What `shoal-convert inspect` says."""
    file = fetch_file(INSPECTED[name], cache=default_cache())
    began = time.monotonic()
    found = inspect(file, profiles=(), runs_engines=True)
    assert found.facts is not None
    engines = [
        f"{run.engine} {run.version}: answers" if run.answers else f"{run.engine}: {run.reason}"
        for run in found.engines
    ]
    notes = (f"inspected only: {found.facts.precision} ({found.facts.how_quantized})", *engines, *found.facts.notes)
    return Result(model=name, seconds=round(time.monotonic() - began, 1), notes=notes)


def main() -> None:
    options = _parse_arguments()
    known = _load_results(options.out) if options.out else {}
    results = []
    for name in options.models or (*SUBJECTS, *INSPECTED):
        if name in SUBJECTS and SUBJECTS[name].needs_frameworks and not FRAMEWORKS.exists():
            print(f"{name}: left out: needs {FRAMEWORKS}", file=sys.stderr)
            continue
        if name not in known:
            if name in INSPECTED:
                known[name] = inspect_model(name)
            else:
                print(f"{name}: building, see {options.work / name / LOG}", file=sys.stderr, flush=True)
                budget = Budget(tuning_s=options.tuning_s, timing_s=options.timing_s)
                known[name] = measure_model(name, work=options.work, budget=budget)
            if options.out:
                with options.out.open("ab") as file:
                    file.write(msgspec.json.encode(known[name]) + b"\n")
        results.append(known[name])
        if options.json:
            print(msgspec.json.encode(known[name]).decode(), flush=True)
    if not options.json:
        print(write_table(results))


def _load_results(file: Path) -> dict[str, Result]:
    lines = file.read_bytes().splitlines() if file.exists() else []
    return {one.model: one for one in (msgspec.json.decode(line, type=Result) for line in lines)}


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the workbench makes of real models.")
    names = [*SUBJECTS, *INSPECTED]
    parser.add_argument("--models", nargs="+", choices=names, metavar="NAME", help=f"out of {', '.join(names)}")
    parser.add_argument("--work", type=Path, default=Path(".cache/conversions"), help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append each model's result; go on where it ends")
    parser.add_argument(
        "--tuning-s", type=float, default=90.0, help="for each quantized variant (default: %(default)g)"
    )
    parser.add_argument("--timing-s", type=float, default=40.0, help="for all of a model (default: %(default)g)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
