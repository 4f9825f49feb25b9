"""Which forms can be made of a source here? Each by the path that the plan names, in a process of its own."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import NamedTuple, Protocol

import msgspec
from shoal_wire.manifest import Tensor

from shoal_converters.building.job import Tell
from shoal_converters.errors import BadModel, BadRecipe, PathFailed, ToolMissing
from shoal_converters.forms import Form, Signature
from shoal_converters.paths import PATHS, SOURCE_RUNS, VARIANTS, Path, process
from shoal_converters.paths.call_files import Array, Tensors, read_calls, write_calls
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.planning import Step, plan
from shoal_converters.quantization.methods import METHODS
from shoal_converters.quantization.tools import PathTool, read_form
from shoal_converters.recipe import Source
from shoal_converters.source_model import SourceModel

PATH_TIMEOUT_S = 3600.0
"""For one conversion: a large network in a framework that is loaded for it."""


class Processes(Protocol):
    """How paths are run: `shoal_converters.paths.process`."""

    def find_missing(self, path: Path, *, interpreters: Mapping[str, str]) -> str:
        """See `process.find_missing`."""

    def run_path(self, path: Path, request: Request, *, interpreters: Mapping[str, str], timeout_s: float) -> Reply:
        """See `process.run_path`."""


class SourceAnswers(NamedTuple):
    """Outputs of the source itself."""

    framework: str
    """In which they were computed, with its version."""
    outputs: Sequence[Tensors]
    """Of each call, by the signature's names."""


class Workshop:
    """The forms of one source, and the folder where they lie while others are made of them."""

    def __init__(
        self,
        source: SourceModel,
        asked: Source,
        *,
        folder: FilePath,
        samples: FilePath,
        interpreters: Mapping[str, str],
        tell: Tell,
        processes: Processes = process,
    ) -> None:
        """`folder` is empty and may be filled; `samples` has a call of each shape that the data have.

        `interpreters` has Python programs by extra (see `run_path`).
        """
        self.forms: dict[str, Form] = {}
        self.notes: list[str] = []
        self._source = source
        self._asked = asked
        self._folder = folder
        self._samples = samples
        self._interpreters = interpreters
        self._tell = tell
        self._signature: Signature | None = None
        self._places: dict[str, FilePath] = {}
        """First file of each form that was made."""
        self._steps: dict[str, Step] = {}
        """By which each was made."""
        self._runs = itertools.count()
        self._processes = processes
        missing = {path.module: processes.find_missing(path, interpreters=interpreters) for path in PATHS}
        self._missing = {module: reason for module, reason in missing.items() if reason}
        self._failures: dict[str, None] = {}
        """What paths said that were tried in vain, each sentence once, in their order."""
        self._paths = PATHS

    @property
    def signature(self) -> Signature:
        """The model's, by which all forms are bound; known once `make` made one."""
        assert self._signature is not None
        return self._signature

    def make(self, wanted: Sequence[str]) -> dict[str, str]:
        """Make all wanted forms but those that must be searched for, and what those are made from.

        Gives the wanted variants that can't be had, each with a sentence that says why.

        Raises:
            BadModel: none can be had, and tools were tried: the model is broken, or they can't convert it.
            ToolMissing: none can be had, since what would make one isn't installed.
            BadRecipe: the file doesn't say what it takes and gives, and neither does the recipe.
        """
        planned = plan(self._source.format, wanted, missing=self._missing, paths=self._paths)
        while (step := self._next(planned.steps)) is not None:
            self._take(step)
            planned = plan(self._source.format, wanted, missing=self._missing, paths=self._paths)
        if self._failures and not self.forms:
            raise BadModel(f"no conversion of {self._source.path} worked: {'; '.join(self._failures)}")
        if not self.forms:
            raise ToolMissing(f"no variant can be made here: {'; '.join(dict.fromkeys(planned.unreachable.values()))}")
        return dict(planned.unreachable)

    def discard(self, name: str, reason: str) -> None:
        """Undo a form that turned out wrong, with all that was made of it; `make` then does without its path."""
        module = self._steps[name].path.module
        self._missing[module] = reason
        self._failures[reason] = None
        left = [name]
        for one in left:
            del self.forms[one], self._places[one], self._steps[one]
            left += [other for other, step in self._steps.items() if step.takes == one]

    def answer_source(self, calls: Sequence[Mapping[str, Array]]) -> SourceAnswers:
        """What the source itself gives to calls, by the signature's names, in a process with its own framework.

        Raises:
            ToolMissing: the framework isn't installed.
            PathFailed: it fails, or can't say anything that may be compared.
        """
        (path,) = (path for path in SOURCE_RUNS if self._source.format in path.takes)
        folder = self._folder / f"{next(self._runs)}-{path.module}"
        folder.mkdir(parents=True)
        feeds, variants = folder.with_suffix(".npz"), ("source",)
        write_calls(feeds, calls)
        request = msgspec.structs.replace(
            self._describe_source(), folder=str(folder), variants=variants, calibration=str(feeds)
        )
        reply = self._processes.run_path(path, request, interpreters=self._interpreters, timeout_s=PATH_TIMEOUT_S)
        if reply.refused:
            raise PathFailed(next(iter(reply.refused.values())))
        (made,) = reply.made
        return SourceAnswers(made.how, read_calls(folder / made.files[0], count=len(calls)))

    def tool(self, variant: str, *, calibration: FilePath | None) -> PathTool:
        """What a search has that variant made with; `make` must have been asked for it."""
        (step,) = (
            step
            for step in plan(self._source.format, [variant], missing=self._missing, paths=self._paths).steps
            if variant in step.gives
        )
        place, taken_format = self._find(step.takes)
        return PathTool(
            variant=variant,
            path=step.path,
            source=FilePath(place),
            source_format=taken_format,
            signature=self.signature,
            calibration=calibration,
            folder=self._folder / "attempts",
            interpreters=self._interpreters,
            timeout_s=PATH_TIMEOUT_S,
        )

    def _next(self, steps: Sequence[Step]) -> Step | None:
        """The first step that has something to make."""
        return next((step for step in steps if self._open(step)), None)

    def _open(self, step: Step) -> tuple[str, ...]:
        return tuple(name for name in step.gives if name not in self.forms and name not in METHODS)

    def _take(self, step: Step) -> None:
        """Do a step. Where it fails, the next plan does without it."""
        wanted = self._open(step)
        self._tell(f"{', '.join(wanted)}: by {step.path.module} from {step.takes}")
        folder = self._folder / f"{next(self._runs)}-{step.path.module}"
        try:
            folder.mkdir(parents=True)
            reply = self._processes.run_path(
                step.path,
                self._request(step, wanted, folder=folder),
                interpreters=self._interpreters,
                timeout_s=PATH_TIMEOUT_S,
            )
            self._keep(reply, step, folder=folder)
        except (ToolMissing, PathFailed) as error:
            self._missing[step.path.module] = str(error)
            self._failures[str(error)] = None
            return
        for name in wanted:
            if name not in self.forms:
                self._give_up(step.path, name, reply.refused.get(name, f"{step.path.module} gave none"))

    def _request(self, step: Step, wanted: tuple[str, ...], *, folder: FilePath) -> Request:
        place, taken_format = self._find(step.takes)
        return msgspec.structs.replace(
            self._describe_source(),
            source=place,
            format=taken_format,
            folder=str(folder),
            variants=wanted,
            calibration=str(self._samples),
        )

    def _describe_source(self) -> Request:
        """A request that says what the model is, and its signature as far as it is known."""
        inputs, outputs = self._asked.inputs, tuple(_named(name) for name in self._asked.outputs)
        if self._signature is not None:
            inputs, outputs = self._signature.inputs, self._signature.outputs
        return Request(
            source=self._source.path,
            format=self._source.format,
            folder="",
            variants=(),
            inputs=inputs,
            outputs=outputs,
            code_folder=self._source.code_folder,
        )

    def _find(self, takes: str) -> tuple[str, str]:
        """Where what a step takes lies, and its format."""
        if takes in self._places:
            return str(self._places[takes]), VARIANTS[takes].format
        return self._source.path, self._source.format

    def _keep(self, reply: Reply, step: Step, *, folder: FilePath) -> None:
        for made in reply.made:
            self._steps[made.name] = step
            self.forms[made.name] = read_form(made, folder=folder)
            self._places[made.name] = folder / made.files[0]
        self.notes += reply.notes
        if self._signature is None and reply.made:
            if not reply.inputs or not reply.outputs:
                raise BadRecipe(f"{self._source.path}: says nothing of its inputs; name them in the recipe's source")
            self._signature = Signature(inputs=reply.inputs, outputs=reply.outputs)

    def _give_up(self, path: Path, variant: str, reason: str) -> None:
        """A path that gives others doesn't give this one."""
        self._failures[reason] = None
        others = tuple(name for name in path.gives if name != variant)
        if others:
            self._paths = tuple(one._replace(gives=others) if one is path else one for one in self._paths)
            self.notes.append(f"{variant}: {reason}")
        else:
            self._missing[path.module] = reason


def _named(name: str) -> Tensor:
    """An output of which only the name is known."""
    return Tensor(name, "float32", ())
