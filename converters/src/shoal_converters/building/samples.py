"""Which calls tell conversions the lengths of free axes? One of each shape that pre-processing makes of the sets."""

from pathlib import Path

from shoal_agent.front.operations.values import Tensors

from shoal_converters.building.job import Job
from shoal_converters.paths.call_files import write_calls
from shoal_converters.quantization.calibration import spread

LOOKED_AT = 64
"""Items of each set."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def write_samples(job: Job, path: Path) -> None:
    """Write the calls; the first is that of the evaluation set's first item."""
    found: dict[Shapes, Tensors] = {}
    for items in (job.evaluation, job.calibration):
        for item in spread(items, LOOKED_AT):
            call = job.pipeline.prepare(item.raw).calls[0]
            found.setdefault(tuple((name, array.shape) for name, array in sorted(call.items())), call)
    write_calls(path, found.values())
