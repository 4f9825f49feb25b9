"""By what is everything judged? The source itself where an engine here runs it, else a form in full precision."""

from dataclasses import replace
from pathlib import Path

from shoal_converters.building.job import Job
from shoal_converters.building.judging import Answering, Judge
from shoal_converters.building.workshop import Workshop
from shoal_converters.errors import BuildFailed, ToolMissing
from shoal_converters.evaluation import Unfit
from shoal_converters.forms import Form
from shoal_converters.paths import FULL_PRECISION
from shoal_converters.source_model import COMPANIONS, SourceModel


def list_full(workshop: Workshop) -> list[Form]:
    """Forms in full precision that an engine here may run; where none was wanted, one is made.

    Raises:
        ToolMissing: none can be made, with the reasons.
        BadModel: no form at all can be made.
    """
    reasons: dict[str, None] = {}
    for name in FULL_PRECISION:
        if not _find_full(workshop):  # all that is wanted runs elsewhere
            reasons |= dict.fromkeys(workshop.make([name]).values())
    full = _find_full(workshop)
    if not full:
        raise ToolMissing(
            "no form of the model can be made here that an engine runs, so there is nothing to judge it by: "
            + "; ".join(reasons)
        )
    return full


def ask_original(job: Job, workshop: Workshop, *, answer: Answering) -> Judge:
    """The judge.

    Raises:
        BuildFailed: what would be judged by doesn't answer the evaluation set.
        BadModel, ToolMissing: see `list_full`.
    """
    forms = list_full(workshop)
    full = next((form for form in forms if form.format == job.source.format), forms[0])
    candidates, reasons = [replace(full, name="original")], [f"no engine runs {job.source.format} itself"]
    if full.format == job.source.format:
        given = replace(full, name="original", files=_read_source(job.source), how="as given")
        candidates, reasons = [given, *candidates], []
    for form in candidates:
        try:
            judge = Judge(form, job.evaluation, task=job.task, answer=answer)
        except Unfit as error:
            reasons.append(str(error))
            continue
        if reasons:
            workshop.notes.append(f"The original is judged as {full.name}: {reasons[0]}.")
        return judge
    raise BuildFailed(
        f"the original doesn't answer the evaluation set: {reasons[-1]}; correct the recipe's post and labels, or the "
        "model"
    )


def _find_full(workshop: Workshop) -> list[Form]:
    return [form for name, form in workshop.forms.items() if name in FULL_PRECISION]


def _read_source(source: SourceModel) -> dict[str, bytes]:
    paths = [Path(source.path)]
    if source.format in COMPANIONS:
        paths.append(paths[0].with_suffix(COMPANIONS[source.format]))
    return {path.name: path.read_bytes() for path in paths}
