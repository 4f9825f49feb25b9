"""How does a search have a variant made and measured? By the path that gives it, in a process for each attempt."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TypeVar

import msgspec

from shoal_converters.errors import PathFailed
from shoal_converters.forms import Form, Signature
from shoal_converters.paths import Path
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.process import OnLine, run_path
from shoal_converters.paths.quantizing import Options
from shoal_converters.quantization.methods import METHODS, Method
from shoal_converters.quantization.search import Quantized
from shoal_converters.quantization.sensitivity import Names

T = TypeVar("T")

GRACE_S = 60.0
"""Beyond the time that it is given to measure, a process may take for loading and for the group that it is at."""


def read_form(made: Made, *, folder: FilePath) -> Form:
    """What a path wrote, into memory; files get the form's name, which no other form of a release has.

    Raises:
        PathFailed: a file that it names isn't there.
    """
    try:
        files = {f"{made.name}{FilePath(name).suffix}": (folder / name).read_bytes() for name in made.files}
    except OSError as error:
        raise PathFailed(f"{made.name}: {error.filename}: {error.strerror}") from None
    return Form(
        name=made.name,
        format=made.format,
        precision=made.precision,
        files=files,
        bindings=made.bindings,
        how=made.how,
        runtimes=made.runtimes,
    )


@dataclass(frozen=True, kw_only=True)
class PathTool:
    """A path that quantizes, with a model: the real `Tool` of a search."""

    variant: str
    path: Path
    source: FilePath
    """The float form's first file; its others lie beside it."""
    source_format: str
    signature: Signature
    calibration: FilePath | None
    folder: FilePath
    """Where attempts are written, each removed once it is in memory."""
    interpreters: Mapping[str, str]
    timeout_s: float
    """For one attempt at most, whatever a search allows."""
    on_line: OnLine | None = None

    @property
    def methods(self) -> Sequence[Method]:
        """See `Tool.methods`."""
        return METHODS[self.variant]

    def quantize(self, options: Options, *, timeout_s: float) -> Quantized:
        """See `Tool.quantize`. Raises ToolMissing, too."""
        return self._run(options, timeout_s=min(timeout_s, self.timeout_s), read=self._read)

    def measure(self, groups: Sequence[Names], budget_s: float, *, options: Options) -> Sequence[float | None]:
        """See `Tool.measure`. Raises ToolMissing, too."""
        options = msgspec.structs.replace(options, groups=tuple(groups), measure_s=max(1.0, budget_s))

        def read(reply: Reply, folder: FilePath) -> tuple[float | None, ...]:
            if len(reply.changes) != len(groups):
                raise PathFailed(f"{self.path.module}: {len(reply.changes)} changes of {len(groups)} groups")
            return reply.changes

        return self._run(options, timeout_s=budget_s + GRACE_S, read=read)

    def _read(self, reply: Reply, folder: FilePath) -> Quantized:
        (made,) = reply.made
        return Quantized(
            form=read_form(made, folder=folder),
            layers=reply.layers,
            unquantizable=reply.unquantizable,
            notes=reply.notes,
        )

    def _run(self, options: Options, *, timeout_s: float, read: Callable[[Reply, FilePath], T]) -> T:
        folder = self.folder / self.variant
        folder.mkdir(parents=True)
        try:
            request = Request(
                source=f"{self.source}",
                format=self.source_format,
                folder=f"{folder}",
                variants=(self.variant,),
                inputs=self.signature.inputs,
                outputs=self.signature.outputs,
                calibration=f"{self.calibration or ''}",
                options=msgspec.to_builtins(options),
            )
            reply = run_path(
                self.path, request, interpreters=self.interpreters, timeout_s=timeout_s, on_line=self.on_line
            )
            if reply.refused:
                raise PathFailed(reply.refused[self.variant])
            return read(reply, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
