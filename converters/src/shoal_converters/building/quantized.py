"""How does a quantized variant come to be? Calibrated once, then searched for, and judged by what it answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace
from shoal_worker.errors import WorkerError

from shoal_converters.building.job import Job, Tell
from shoal_converters.building.judging import Contender, Judge, Judged
from shoal_converters.errors import BuildFailed, PathFailed, ToolMissing
from shoal_converters.evaluation import open_form
from shoal_converters.forms import Form, Signature
from shoal_converters.paths.quantizing import Options
from shoal_converters.quantization.calibration import collect_calls
from shoal_converters.quantization.methods import Method
from shoal_converters.quantization.search import Found, Quantized, Score, Tool, search
from shoal_converters.quantization.sensitivity import Names
from shoal_converters.recipe import Budget
from shoal_converters.report.results import Attempt

NEEDS_NO_CALIBRATION = ("tflite-int8-dynamic",)


class Toolbox(Protocol):
    """Has the tool for each variant: the workshop."""

    def tool(self, variant: str, *, calibration: Path | None) -> Tool:
        """See `Workshop.tool`."""


class Calibration:
    """What a quantizer sees of a job's calibration set: the calls that the original gets of it."""

    def __init__(self, job: Job, original: Form, *, signature: Signature, path: Path, tell: Tell) -> None:
        """`path`: the file that they are written to when they are first asked for."""
        self.notes: tuple[str, ...] = ()
        self._job = job
        self._original = original
        self._signature = signature
        self._path = path
        self._tell = tell

    def collect(self) -> Path | None:
        """The file; None where the job has no such set.

        Raises:
            BadData: see `collect_calls`.
            BuildFailed: calls depend on outputs of those before, and the original fails.
        """
        if not self._job.calibration:
            return None
        if not self._path.exists():
            try:
                with open_form(self._original, signature=self._signature) as original:
                    collected = collect_calls(
                        self._job.calibration,
                        pipeline=self._job.pipeline,
                        inputs=self._signature.inputs,
                        path=self._path,
                        run=original.run,
                    )
            except WorkerError as error:
                raise BuildFailed(f"calibration set: the original fails: {error}") from None
            self._tell(f"calibration: {collected.calls} calls of {collected.items} items")
            self.notes = collected.notes
        return self._path


class Quantizer:
    """Searches for variants by what the judge says of them."""

    def __init__(
        self, tools: Toolbox, judge: Judge, budget: Budget, *, collect: Callable[[], Path | None], tell: Tell
    ) -> None:
        """`collect` gives the file of the calibration set's calls, which it makes when it is first asked; None where
        there is no such set."""
        self.missing: dict[str, str] = {}
        self._tools = tools
        self._judge = judge
        self._budget = budget
        self._collect = collect
        self._tell = tell

    def quantize(self, variant: str) -> Contender | None:
        """Search for a form of that name; None where none can be made, which `missing` then says.

        Raises:
            BadData, BuildFailed: the calibration set can't be used: see `Calibration.collect`.
        """
        calibration = self._collect()
        if calibration is None and variant not in NEEDS_NO_CALIBRATION:
            self.missing[variant] = "needs a calibration set, and the recipe has none"
            return None
        judged: list[Judged] = []

        def evaluate(form: Form) -> Score:
            judged.append(self._judge.judge(form))
            return self._judge.compare(judged[-1])

        try:
            found = search(
                variant,
                tool=_ToldTool(
                    tool=self._tools.tool(variant, calibration=calibration), variant=variant, tell=self._tell
                ),
                evaluate=evaluate,
                max_drop=self._budget.max_drop,
                original_value=self._judge.original.scored.value,
                budget_s=self._budget.tuning_s,
                on_attempt=lambda attempt: self._tell(_describe(variant, attempt)),
            )
        except (ToolMissing, PathFailed) as error:
            self.missing[variant] = str(error)
            return None
        return self._contend(variant, found, judged)

    def _contend(self, variant: str, found: Found, judged: Sequence[Judged]) -> Contender | None:
        form = found.form or found.nearest
        if form is None:
            self.missing[variant] = found.reason
            return None
        described = self._judge.describe(next(one for one in judged if one.form is form))
        result = replace(described.result, attempts=found.attempts, layers=found.layers, reason=found.reason)
        return Contender(form=form, result=result, judged=described.judged)


@dataclass(frozen=True, kw_only=True)
class _ToldTool:
    """A tool that says what it is about to do, since it may take long."""

    tool: Tool
    variant: str
    tell: Tell

    @property
    def methods(self) -> Sequence[Method]:
        return self.tool.methods

    def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
        self.tell(f"{self.variant}: quantizing")
        return self.tool.quantize(options, timeout_s=timeout_s)

    def measure(self, groups: Sequence[Names], budget_s: float, *, options: Options) -> Sequence[float | None]:
        self.tell(
            f"{self.variant}: measuring how sensitive {len(groups)} groups of layers are, at most {budget_s:.0f} s"
        )
        return self.tool.measure(groups, budget_s, options=options)


def _describe(variant: str, attempt: Attempt) -> str:
    words = f"{variant}: {attempt.method}: {attempt.value:.4f}, {-attempt.drop:+.4f}, {attempt.seconds:.0f} s"
    return f"{words}: {attempt.note}" if attempt.note else words
