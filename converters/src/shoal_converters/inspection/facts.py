"""What is told of a model file? The words that all readers share; `shoal-convert inspect --json` prints them."""

from collections.abc import Mapping

import msgspec

PRECISIONS: Mapping[str, str] = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int8": "int8-weights",
    "uint8": "int8-weights",
    "int4": "int4-weights",
    "uint4": "int4-weights",
}
"""Of weights, by the type in which they are stored."""


class TensorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output, as the file has it."""

    name: str
    dtype: str
    """As NumPy names it, where NumPy has it."""
    shape: tuple[int, ...] | None = None
    """-1: free. None: the file doesn't say how many axes there are."""
    axes: tuple[str, ...] = ()
    """Names of free axes where the file has some; empty text for the others."""
    scale: float = 0.0
    """Of a quantized tensor: `(q - zero_point) * scale`; 0 where it isn't."""
    zero_point: int = 0

    @property
    def words(self) -> str:
        """`x float32 [batch, 3, 224, 224]`."""
        if self.shape is None:
            lengths = "any number of axes"
        else:
            names = self.axes or ("",) * len(self.shape)
            free = [name or "any" for name in names]
            lengths = ", ".join(
                word if length < 0 else str(length) for length, word in zip(self.shape, free, strict=True)
            )
        quantized = f", quantized: (q - {self.zero_point}) * {self.scale:g}" if self.scale else ""
        return f"{self.name} {self.dtype} [{lengths}]{quantized}"


class OperatorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How often an operator occurs, those in branches, loops and functions among them."""

    name: str
    count: int
    domain: str = ""
    """Of whose set it is: empty for the format's own."""
    version: str = ""
    """Of the operator, where the file has one for each."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader found in a file. What is None or empty isn't known."""

    format: str
    """See `shoal_converters.inspection.formats.KINDS`."""
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    operators: tuple[OperatorFacts, ...] = ()
    versions: dict[str, str] = {}
    """Of format, operator sets, and what wrote it."""
    parameters: int | None = None
    """Values in weights and other constants."""
    parameter_bytes: int | None = None
    precision: str = ""
    """fp32, fp16, bf16, int8, int8-weights, int4-weights: what most of it is computed in or stored as."""
    how_quantized: str = ""
    """In words."""
    signatures: tuple[str, ...] = ()
    custom_operators: tuple[str, ...] = ()
    """That an engine has only where somebody added them."""
    external_files: tuple[str, ...] = ()
    """Other files that hold weights, as the file names them."""
    traits: tuple[str, ...] = ()
    """What keeps engines from running it: see `shoal_converters.inspection.boards.OBSTACLES`."""
    notes: tuple[str, ...] = ()


class EngineRun(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a model in one engine here."""

    engine: str
    version: str = ""
    loads: bool = False
    answers: bool = False
    """It answered zeros once."""
    reason: str = ""
    """Why it doesn't load, or doesn't answer."""
    load_ms: float = 0.0
    run_ms: float = 0.0
    """Of the one answer, which is no measurement: it warms the engine up."""


class EngineVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an engine of a board should run a model."""

    engine: str
    fits: bool
    reasons: tuple[str, ...] = ()
    """Why not; or what to know if it does."""


class BoardVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a kind of board should run a model."""

    board: str
    fits: bool
    engines: tuple[EngineVerdict, ...] = ()
    memory: str = ""
    """Which of the sizes that the board is sold with are enough."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A model inside of a release folder, in one of its variants."""

    name: str
    facts: Facts
    engines: tuple[EngineRun, ...] = ()
    boards: tuple[BoardVerdict, ...] = ()


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    path: str
    size_bytes: int
    """Of all files that belong to it."""
    sha256: str = ""
    """Of the file; empty for a folder."""
    facts: Facts
    engines: tuple[EngineRun, ...] = ()
    boards: tuple[BoardVerdict, ...] = ()
    parts: tuple[Part, ...] = ()
    """Of a release folder."""


def count_operators(counts: Mapping[tuple[str, str, str], int]) -> tuple[OperatorFacts, ...]:
    """Counts by (name, domain, version), the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        OperatorFacts(name=name, domain=domain, version=version, count=count)
        for (name, domain, version), count in ordered
    )


def dominant_precision(bytes_by_dtype: Mapping[str, int]) -> str:
    """The precision of weights, by what most of their bytes are; fp32 where there are none."""
    known = {PRECISIONS[dtype]: size for dtype, size in sorted(bytes_by_dtype.items()) if dtype in PRECISIONS}
    return max(known, key=lambda name: known[name]) if known else "fp32"
