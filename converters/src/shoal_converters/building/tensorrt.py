"""Does TensorRT take the forms that are meant for it? Its parser and builder say so, where they are installed."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal_converters.errors import PathFailed, ToolMissing
from shoal_converters.forms import Form
from shoal_converters.paths import TENSORRT_CHECK
from shoal_converters.paths.messages import Request
from shoal_converters.paths.process import run_path

TIMEOUT_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What TensorRT says of one form."""

    refused: str = ""
    """Why it doesn't take it; empty where it does, and where nobody could ask."""
    note: str = ""
    """For the report: that it does, or why nobody could ask."""


def ask_tensorrt(form: Form, *, interpreters: Mapping[str, str]) -> Checked:
    """Parse an ONNX form, and build an engine of it where its shapes are known. No engine is run."""
    with tempfile.TemporaryDirectory(prefix="shoal-tensorrt-") as scratch:
        source, folder = Path(scratch) / "model.onnx", Path(scratch) / "out"
        source.write_bytes(next(iter(form.files.values())))
        folder.mkdir()
        request = Request(source=str(source), format=form.format, folder=str(folder), variants=(form.name,))
        try:
            reply = run_path(TENSORRT_CHECK, request, interpreters=interpreters, timeout_s=TIMEOUT_S)
        except (ToolMissing, PathFailed) as error:
            return Checked(note=f"{form.name}: TensorRT wasn't asked: {error}")
    return Checked(refused=reply.refused.get(form.name, ""), note="; ".join(reply.notes))
