"""What did a build find out? The JSON report; the HTML one shows the same."""

import math

import msgspec
from shoal_wire.encoding import Parameters


class Interval(msgspec.Struct, frozen=True):
    """With 95 % confidence."""

    low: float
    high: float


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """A variant in an engine on this machine, from an item's bytes to its answer."""

    engine: str
    precision: str
    threads: int
    p50_ms: float
    p95_ms: float
    answers_per_s: float
    memory_bytes: int
    joules: float | None = None
    """An answer; None where this machine has no meter."""
    rounds_ms: tuple[float, ...] = ()
    """Median latency in each round. All variants had their turn in every round, so that rounds can be compared."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One way that was tried to quantize a variant."""

    method: str
    value: float = math.nan
    """Of the task's metric; NaN where it isn't defined."""
    drop: float = math.nan
    size_bytes: int
    seconds: float
    note: str = ""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """How much a layer's quantization alone costs."""

    name: str
    operator: str
    sensitivity: float
    """Root mean square of the change of the model's outputs, relative to theirs, with this layer quantized only."""
    is_kept_float: bool


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An item on which a variant does worse than the original."""

    item: str
    expected: str
    original: str
    variant: str
    score: float
    picture: str = ""
    """A PNG as a data URL: the picture itself, the spectrogram of a sound, a plot of a table."""


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of labels that is confused more or less often than by the original."""

    expected: str
    answered: str
    original: int
    variant: int


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, released or not."""

    name: str
    format: str
    precision: str
    how: str
    size_bytes: int
    sha256s: dict[str, str] = {}
    """Of its files, by name."""
    judged_in: str = ""
    """Engine and version that the accuracy was measured in."""
    value: float | None = None
    """Of the task's metric; None where it could not be run here (Core ML on Linux, unless interpreted)."""
    interval: Interval | None = None
    drop: float | None = None
    """Against the original on the same items; negative where the variant is better."""
    drop_interval: Interval | None = None
    agreement: float | None = None
    """Mean over the items of how far it says what the original says."""
    speeds: tuple[Speed, ...] = ()
    runtimes: tuple[str, ...] = ()
    """Engines that compute it right, where not all that read the format do; empty: all."""
    not_timed: dict[str, str] = {}
    """Why it has no speed in an engine, by engine and setting."""
    gains: tuple[str, ...] = ()
    """What it is truly better at than the fp32 variant of its own format: "smaller", "faster"."""
    is_released: bool = False
    reason: str = ""
    """Why it isn't released, or what to know of it."""
    attempts: tuple[Attempt, ...] = ()
    layers: tuple[Layer, ...] = ()
    confusions: tuple[Confusion, ...] = ()
    worst: tuple[Example, ...] = ()


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant should do on a board of a profile that has measurements."""

    board: str
    variant: str
    engine: str
    threads: int
    answers_per_s: float
    source: str


class BoardVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the boards of a profile can run a variant."""

    board: str
    """Name of the profile."""
    variant: str
    engines: tuple[str, ...] = ()
    """Of the profile's, that run it; empty: it can't."""
    words: str
    """Why not, or what it needs."""


class Golden(msgspec.Struct, frozen=True, kw_only=True):
    """A golden case that was picked."""

    item: str
    kind: str
    """easy, hard or boundary."""
    minimum: float
    maximum_difference: float | None


class SourceDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How far a conversion in full precision lies from the source in its own framework."""

    variant: str
    output: str
    """That which differs most."""
    difference: float = math.inf
    """Root mean square of a call's differences, of the largest such, relative to that of the source's outputs; infinite
    where shapes differ or values aren't finite."""


class SourceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Of conversions with a source that no engine runs."""

    framework: str
    items: int
    calls: int
    allowed: float
    differences: tuple[SourceDifference, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    name: str
    version: int
    task: str
    metric: str
    samples: int
    max_drop: float
    original: VariantResult
    variants: tuple[VariantResult, ...]
    source: SourceComparison | None = None
    """None where the source is judged itself, or couldn't be run, which a note says."""
    missing: dict[str, str] = {}
    """Variants that could not be made, with the sentence why."""
    predictions: tuple[Prediction, ...] = ()
    boards: tuple[BoardVerdict, ...] = ()
    """For every target and variant."""
    golden: tuple[Golden, ...] = ()
    notes: tuple[str, ...] = ()
    reference_output: Parameters = {}
    licence: str
    provenance: str
    source_sha256: str
    versions: dict[str, str]
    """Of Python, this workbench, engines and tools."""
    machine: str
    command: str
    manifest_sha256: str = ""
    """Of release.json."""
