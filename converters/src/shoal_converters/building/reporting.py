"""What does the report say of a build?"""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from shoal_converters.board_speeds import judge_board, predict_board
from shoal_converters.building.job import Job
from shoal_converters.building.judging import Contender, Judge
from shoal_converters.paths.process import find_versions
from shoal_converters.report.results import Report, SourceComparison

TOOLS = (
    "ai-edge-litert",
    "ai-edge-quantizer",
    "coremltools",
    "litert-torch",
    "nncf",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "paddlepaddle",
    "scikit-learn",
    "shoal-agent",
    "shoal-converters",
    "skl2onnx",
    "tensorflow",
    "tensorflow-cpu",
    "tensorrt-rtx",
    "tf2onnx",
    "torch",
)
"""Distributions whose versions the report names, where they are installed."""


def make_report(
    job: Job,
    judge: Judge,
    contenders: Sequence[Contender],
    *,
    compared: SourceComparison | None,
    missing: Mapping[str, str],
    notes: Sequence[str],
) -> Report:
    """All that was found out, but the golden cases and the digest of a release."""
    recipe, task = job.recipe, job.task
    results = tuple(one.result for one in contenders)
    profiles = job.order.profiles
    if job.wanted.left_out:
        left_out = f"No target runs {', '.join(job.wanted.left_out)}: not made, since the recipe names none of them."
        notes = [left_out, *notes]
    return Report(
        name=recipe.name,
        version=recipe.version,
        task=task.name,
        metric=task.metric,
        samples=len(judge.items),
        max_drop=recipe.budget.max_drop,
        original=judge.describe(judge.original).result,
        variants=results,
        source=compared,
        missing=dict(missing),
        predictions=tuple(one for profile in profiles for one in predict_board(profile, results, model=recipe.name)),
        boards=tuple(one for profile in profiles for one in judge_board(profile, results)),
        notes=tuple(dict.fromkeys(notes)),
        reference_output=task.summarise(judge.original.answers),
        licence=recipe.licence,
        provenance=recipe.provenance,
        source_sha256=job.source.sha256,
        versions=_list_versions(job.order.interpreters),
        machine=_describe_machine(),
        command=job.order.command,
    )


def _list_versions(interpreters: Mapping[str, str]) -> dict[str, str]:
    """Of Python and of the tools that are installed here, and of those of other interpreters with their extras."""
    versions = find_versions(sys.executable, TOOLS)
    extras: dict[str, list[str]] = {}
    for extra, interpreter in sorted(interpreters.items()):
        extras.setdefault(interpreter, []).append(extra)
    for interpreter, served in extras.items():
        where = ", ".join(served)
        versions |= {f"{name} ({where})": version for name, version in find_versions(interpreter, TOOLS).items()}
    return versions


def _describe_machine() -> str:
    """Processor, cores and architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0))
    return f"{names[0] if names else 'unknown processor'}, {cores} cores, {platform.machine()}"
