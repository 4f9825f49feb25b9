"""What is written of a build: a release with its report, or the report alone where nothing may be released."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace
from shoal_wire.encoding import encode
from shoal_wire.manifest import Accuracy, DraftFile, Model, ReleaseDraft, Variant

from shoal_converters.building.job import Job
from shoal_converters.building.judging import Contender
from shoal_converters.forms import Signature
from shoal_converters.paths import VARIANTS
from shoal_converters.recipe import Recipe
from shoal_converters.recorded_outputs import ROLE
from shoal_converters.release_folder import (
    check_replaceable,
    check_writable,
    remove_folder,
    write_folder,
    write_release,
)
from shoal_converters.report.html import write_html
from shoal_converters.report.json import write_json
from shoal_converters.report.results import Report

REPORT_HTML, REPORT_JSON = "report.html", "report.json"
SMALLEST_FIRST = ("int8", "int8-weights", "int4-weights", "fp16", "fp32")
"""Before a board has measured, it takes the first variant that it reads."""
MAX_TEXT = 4000
MAX_DATASET = 200


def check_places(folder: Path) -> None:
    """Make sure that a build can be written: see `write_build` and `write_refusal`. Raises BuildFailed."""
    check_replaceable(folder)
    check_replaceable(_refusal_folder(folder), mark=REPORT_JSON)
    check_writable(folder)


def describe_model(job: Job, signature: Signature, contenders: Sequence[Contender]) -> Model:
    """The model with the contenders as variants; it has no golden cases yet."""
    recipe = job.recipe
    ordered = sorted(contenders, key=lambda one: SMALLEST_FIRST.index(VARIANTS[one.form.name].precision))
    return Model(
        name=recipe.name,
        task=recipe.task,
        inputs=signature.inputs,
        outputs=signature.outputs,
        pre=recipe.pre,
        post=recipe.post,
        labels=recipe.labels,
        variants=tuple(_variant(one, job) for one in ordered),
        golden=(),
    )


def write_build(model: Model, contents: Mapping[str, bytes], report: Report, *, recipe: Recipe, folder: Path) -> Report:
    """Write the release and its report; gives the report with the digest of release.json.

    The report of an earlier build that released nothing goes.

    Raises:
        BuildFailed: it can't be written; what was there before still is.
    """
    draft = _draft(model, recipe=recipe, source_sha256=report.source_sha256)
    report = replace(report, manifest_sha256=sha256(encode(draft)).hexdigest())
    write_release(draft, contents, folder=folder, beside=_write_reports(report))
    remove_folder(_refusal_folder(folder), mark=REPORT_JSON)
    return report


def write_refusal(report: Report, *, reason: str, folder: Path) -> Path:
    """Write what was found out where nothing may be released, beside the release folder; gives the HTML file.

    Raises:
        BuildFailed: it can't be written.
    """
    variants = tuple(
        replace(one, is_released=False, reason=reason) if one.is_released else one for one in report.variants
    )
    place = _refusal_folder(folder)
    write_folder(_write_reports(replace(report, variants=variants)), folder=place, mark=REPORT_JSON)
    return place / REPORT_HTML


def _refusal_folder(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.report")


def _write_reports(report: Report) -> dict[str, bytes]:
    return {REPORT_HTML: write_html(report).encode(), REPORT_JSON: write_json(report)}


def _variant(contender: Contender, job: Job) -> Variant:
    result = contender.result
    assert result.value is not None
    dataset = f"{job.recipe.evaluation.path} ({result.judged_in})"[:MAX_DATASET]
    accuracy = Accuracy(job.task.metric, round(result.value, 6), dataset, len(job.evaluation))
    return replace(contender.form.variant, accuracy=(accuracy,))


def _draft(model: Model, *, recipe: Recipe, source_sha256: str) -> ReleaseDraft:
    roles = {  # one that several variants have is one file
        **{name: "model" for variant in model.variants for name in variant.files},
        **{case.file: "golden" for case in model.golden},
        **{one.file: ROLE for case in model.golden for one in case.outputs},
    }
    provenance = f"{recipe.provenance} Made from {recipe.source.path} (SHA-256 {source_sha256}).".strip()
    return ReleaseDraft(
        name=recipe.name,
        version=recipe.version,
        created_at=recipe.created_at,
        licence=recipe.licence,
        provenance=provenance[:MAX_TEXT],
        models=(model,),
        files=tuple(DraftFile(name=name, role=role, path=name) for name, role in roles.items()),
    )
