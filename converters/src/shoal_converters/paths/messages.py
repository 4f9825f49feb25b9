"""What do the workbench and a conversion in a process of its own say to one another?

A path is run by `python -m shoal_converters.paths.program <module>`: one Request as JSON on stdin, one Reply on
stdout, all else that is printed goes to stderr. So a framework that is missing, crashes or clashes costs one variant.
"""

import msgspec
from shoal_wire.encoding import Parameters
from shoal_wire.manifest import Binding, Tensor

MAX_REQUEST_BYTES = 1 << 20
MAX_REPLY_BYTES = 8 << 20


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A conversion. All paths are absolute."""

    source: str
    """File or folder, or `module:function` with `code_folder` on the module path."""
    format: str
    folder: str
    """Exists and is empty; all that is written goes there."""
    variants: tuple[str, ...]
    """Names of what is wanted, of those that the path gives."""
    inputs: tuple[Tensor, ...] = ()
    """The model's signature, as far as it is known."""
    outputs: tuple[Tensor, ...] = ()
    calibration: str = ""
    """A NumPy .npz of arrays `<call>/<input>`, in the signature's form, calls counted from 0: those of the calibration
    set for a path that quantizes, one of each shape for one that traces, those to be answered for one that runs."""
    code_folder: str = ""
    options: Parameters = {}
    """Of the path: method of calibration, nodes that stay in float, …"""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """One form that was written."""

    name: str
    format: str
    precision: str
    files: tuple[str, ...]
    """Names in the folder, the model first."""
    bindings: tuple[Binding, ...] = ()
    how: str
    runtimes: tuple[str, ...] = ()


class QuantizedLayer(msgspec.Struct, frozen=True):
    """What a tool can leave in float by itself, as it names it."""

    name: str
    operator: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a conversion."""

    made: tuple[Made, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    """The signature, where the path found it out."""
    outputs: tuple[Tensor, ...] = ()
    refused: dict[str, str] = {}
    """Variants that could not be made, each with a sentence that says why and what to do."""
    notes: tuple[str, ...] = ()
    """For the report: layers left in float, what a tool did otherwise than asked."""
    layers: tuple[QuantizedLayer, ...] = ()
    """Those that were quantized, in the order of the graph."""
    unquantizable: tuple[QuantizedLayer, ...] = ()
    """Those left in float because an engine doesn't load the model otherwise."""
    changes: tuple[float | None, ...] = ()
    """How far the outputs moved, for each group that was to be measured; None where there was no time."""
